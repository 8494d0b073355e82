"""The parts of the documentation that are printed by the code itself.

    <!-- generated: options -->      what stands between these lines is replaced
    <!-- end -->

`python -m tests.documents` rewrites them; test_documents.py compares.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import thunder

from thunder_fuser import explain, fuser
from thunder_fuser.executor.explain import regions_of
from thunder_fuser.frontend.definition import FusionDefinition
from thunder_fuser.kernel.lower import lower
from thunder_fuser.options import KEYWORD, PREFIX, Options
from thunder_fuser.runtime.plan import Plan
from thunder_fuser.schedule.map import schedule
from thunder_fuser.schedule.parameters import parameters_for
from thunder_fuser.target import HOST

ROOT = Path(__file__).parents[1]
DOCUMENTS = (ROOT / "README.md", ROOT / "docs" / "life-of-a-fusion.md")
_BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rewritten(text: str) -> str:
    """`text` with every generated part as the code prints it now."""
    return _BLOCK.sub(lambda block: block[1] + PARTS[block[2]]() + block[3], text)


def options_table() -> str:
    """One line per option: variable, keyword, default, meaning."""
    lines = ["| variable | keyword | default | what it does |", "|---|---|---|---|"]
    lines += [
        f"| `{PREFIX}{option.name.upper()}` | `{KEYWORD}{option.name}` | "
        f"`{option.default}` | {option.metadata['doc']} |"
        for option in fields(Options)
    ]
    return "\n".join(lines) + "\n"


def program() -> str:
    """The function of docs/life.py."""
    return _fenced("python", (ROOT / "docs" / "life.py").read_text().split("\n\n\n")[1])


def claim() -> str:
    """What `explain` says of the bound symbols."""
    text = explain(_compiled()).split("\n\n")[0]
    return _fenced("text", text.replace(f"{ROOT}/", ""))


def records() -> str:
    """The definition; its id counts the fusions of the process."""
    return _fenced("python", re.sub(r"_id\d+", "_id0", str(_definition())))


def fusion() -> str:
    return _fenced("text", _definition().fusion_ir())


def segments() -> str:
    return _fenced("text", str(_plan().segmented))


def kernel() -> str:
    """The statement IR, before it becomes text."""
    (segment,) = _plan().segmented.segments
    return _fenced("text", str(lower(schedule(segment, parameters_for(HOST)), strict=False)))


def cuda() -> str:
    """The entry point; above it stands the device header."""
    (source,) = _plan().sources
    return _fenced("cuda", source[source.index('extern "C"') :])


def plan() -> str:
    return _fenced("python", _plan().text)


PARTS: dict[str, Callable[[], str]] = {
    "options": options_table,
    "program": program,
    "claim": claim,
    "records": records,
    "fusion": fusion,
    "segments": segments,
    "kernel": kernel,
    "cuda": cuda,
    "plan": plan,
}


def _compiled() -> Any:
    """The program of docs/life.py, compiled and called."""
    namespace = runpy.run_path(str(ROOT / "docs" / "life.py"))
    jfn = thunder.jit(namespace["rotate"], executors=[fuser])
    jfn(*namespace["arguments"]())
    return jfn


def _definition() -> FusionDefinition:
    (region,) = regions_of(_compiled())
    (definition,) = region.definitions
    return definition


def _plan() -> Plan:
    found = _definition().leaf.program.plans[0]
    assert isinstance(found, Plan)
    return found


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


if __name__ == "__main__":
    for path in DOCUMENTS:
        path.write_text(rewritten(path.read_text()))
