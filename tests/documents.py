"""The parts of the documentation that are printed by the code itself.

    <!-- generated: options -->      what stands between these lines is replaced
    <!-- end -->

`python -m tests.documents` rewrites them; test_documents.py compares.
"""

from __future__ import annotations

import re
import runpy
import tempfile
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import thunder

from benchmarks import columns
from benchmarks.suites import SUITES
from tests import tutorial
from thunder_fuser import explain, fuser
from thunder_fuser.options import KEYWORD, PREFIX, Options

ROOT = Path(__file__).parents[1]
DOCUMENTS = (
    ROOT / "README.md",
    *(ROOT / "docs" / name for name in ("life-of-a-fusion.md", "tutorial.md", "benchmarks.md")),
)
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


def suites_table() -> str:
    """One line per suite of benchmarks."""
    lines = ["| suite | what | workloads | in sizes |", "|---|---|---|---|"]
    for suite in SUITES:
        sizes = sum(len(workload.sizes) for workload in suite.workloads)
        lines.append(f"| `{suite.name}` | {suite.summary} | {len(suite.workloads)} | {sizes} |")
    return "\n".join(lines) + "\n"


def program() -> str:
    """The function of docs/life.py."""
    return tutorial.fenced("python", (ROOT / "docs" / "life.py").read_text().split("\n\n\n")[1])


def claim() -> str:
    """What `explain` says of the bound symbols."""
    text = explain(_compiled()[0]).split("\n\n")[0]
    return tutorial.fenced("text", text.replace(f"{ROOT}/", ""))


def _stage(file: str, language: str = "text") -> Callable[[], str]:
    """A file of the program's dump."""

    def printed() -> str:
        text = re.sub(r"_id\d+", "_id0", _compiled()[1][file])  # counts the fusions of a process
        return tutorial.fenced(language, text)

    return printed


def cuda() -> str:
    """The entry point; above it stands the device header."""
    source = _compiled()[1]["7_kernel_0.cu"]
    return tutorial.fenced("cuda", source[source.index('extern "C"') :])


PARTS: dict[str, Callable[[], str]] = {
    "options": options_table,
    "suites": suites_table,
    "columns": columns.table,
    "program": program,
    "claim": claim,
    "records": _stage("0_definition.py", "python"),
    "fusion": _stage("1_fusion.txt"),
    "segments": _stage("4_segmented.txt"),
    "schedule": _stage("5_schedule_0.txt"),
    "kernel": _stage("6_kernel_0.ir.txt"),
    "cuda": cuda,
    "plan": _stage("8_plan.py", "python"),
    **tutorial.PARTS,
}


@cache
def _compiled() -> tuple[Any, dict[str, str]]:
    """The program of docs/life.py, compiled and called, and the files of its dump."""
    namespace = runpy.run_path(str(ROOT / "docs" / "life.py"))
    with tempfile.TemporaryDirectory() as directory:
        jfn = thunder.jit(namespace["rotate"], executors=[fuser], fuser_dump=directory)
        jfn(*namespace["arguments"]())
        files = {path.name: path.read_text() for path in Path(directory, "0_TF0").iterdir()}
    return jfn, files


if __name__ == "__main__":
    for path in DOCUMENTS:
        path.write_text(rewritten(path.read_text()))
