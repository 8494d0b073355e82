"""Kernels with planted faults: what checks, errors and fallbacks are tested with."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from thunder_fuser import tuning
from thunder_fuser.kernel.source import Source
from thunder_fuser.runtime.kernels import KERNELS


def plant(monkeypatch: pytest.MonkeyPatch, pattern: str, replacement: str) -> None:
    """Have every kernel generated from now on changed where `pattern` matches its text."""
    KERNELS.clear()  # else general forms of earlier kernels may be generated now too
    emit: Callable[..., Source] = tuning.emit

    def emit_faulty(kernel: object) -> Source:
        source = emit(kernel)
        text = re.sub(pattern, replacement, source.text)
        assert text != source.text, "nothing was planted"
        none: frozenset[int] = frozenset()
        return replace(source, fragments=(text,), literals=(), hints=none, counts=none)

    monkeypatch.setattr(tuning, "emit", emit_faulty)


# Changes that leave a kernel compilable.
OTHER_VALUE = (r"tf::exp\(", "1.5f * tf::exp(")
STORE_BEYOND = (r"(tf::store\w*<\d+>\()T(\d+) \+", r"\1T\2 + 8 +")
LOAD_BEYOND = (r"(tf::load<[^>]*>\()T(\d+) \+", r"\1T\2 + 8 +")
STUCK = (
    r"(const int thread = [^;]*;)",
    r"\1 if (threadIdx.x == 0) { __syncthreads(); } else { __syncwarp(); }",
)
# A call of a function that does not exist.
UNKNOWN = (r"(float T\d+_0 = )tf::exp\(", r"\1tf::nope(")
