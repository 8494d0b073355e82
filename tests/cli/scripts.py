"""Scripts that tests hand to the commands which run one."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

_HEAD = """\
import sys
import thunder, torch
from thunder_fuser import fuser
def jit(fn):
    return thunder.jit(fn, executors=[fuser], fuser_evaluator=True)
"""


def write_script(path: Path, body: str) -> str:
    """A script with `body` below its imports and `jit`, which needs no C++ compiler; its path."""
    path.write_text(_HEAD + dedent(body))
    return str(path)


TWO_REGIONS = """\
def program(x):
    return torch.exp(torch.cumprod(torch.tanh(x) * 2, 0)) * x
once = jit(program)
once(torch.randn(7, 5))
"""
