"""What the documentation quotes is what the code prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from tests.documents import DOCUMENTS, PARTS, ROOT, rewritten

PAGES = (
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "reports").glob("*.md")),
)


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU no CPU tensor is claimed")
@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.name)
def test_generated_parts_are_what_the_code_prints(page: Path) -> None:
    text = page.read_text()
    assert text == rewritten(text), "run: python -m tests.documents"


def test_every_part_stands_somewhere() -> None:
    texts = "".join(page.read_text() for page in DOCUMENTS)
    assert [name for name in PARTS if f"<!-- generated: {name} -->" not in texts] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    linked = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [name for name in linked if not (page.parent / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_named_in_the_text_exist(page: Path) -> None:
    """`runtime/plan.py` stands for thunder_fuser/runtime/plan.py."""
    named = set(re.findall(r"`([a-z_]+/(?:[a-z_/]+\.py)?)`", page.read_text()))
    places = (ROOT, ROOT / "thunder_fuser")
    assert [n for n in sorted(named) if not any((p / n).exists() for p in places)] == []


def test_the_modules_and_tests_of_every_template_exist() -> None:
    """In the table of docs/kernels.md `rope` is tests/test_rope_kernels.py."""
    rows = re.findall(r"^\| T\d+ .*$", (ROOT / "docs" / "kernels.md").read_text(), re.MULTILINE)
    assert rows
    for row in rows:
        *_, schedules, kernels, printers, tests = (
            re.findall(r"`([\w/]+)`", cell) for cell in row.strip("|").split("|")
        )
        layers = {"schedule": schedules, "kernel": kernels, "codegen": printers}
        files = [f"thunder_fuser/{at}/{name}.py" for at, names in layers.items() for name in names]
        files += [f"tests/{n}.py" if "/" in n else f"tests/test_{n}_kernels.py" for n in tests]
        assert [name for name in files if not (ROOT / name).exists()] == []
