"""The generated op table."""

from __future__ import annotations

from pathlib import Path

from thunder_fuser.ops import OPS
from thunder_fuser.ops.docs import render

COMMITTED = Path(__file__).parents[2] / "docs" / "ops.md"


def test_the_committed_op_table_is_what_the_rows_say() -> None:
    assert COMMITTED.read_text() == render(), "run: python -m thunder_fuser.ops.docs docs/ops.md"


def test_every_row_has_a_line() -> None:
    text = render()
    assert [name for name in OPS if f"| `{name}(" not in text] == []
