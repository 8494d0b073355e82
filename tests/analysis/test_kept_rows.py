"""Threads that share the rows of a column, and what each needs."""

from __future__ import annotations

import pytest

from thunder_fuser.analysis.kept_rows import SCRATCH, KeptRows


@pytest.mark.parametrize(
    ("rows", "kept", "limit", "down"),
    [(64, 8, 32, 16), (65, 8, 32, 32), (64, 8, 64, 8), (3, 4, 32, 1), (5, 64, 32, 8)],
)
def test_as_few_threads_share_a_column_as_have_registers(
    rows: int, kept: int, limit: int, down: int
) -> None:
    assert KeptRows(rows, kept, 0, 0).threads(limit) == down


def test_sums_beside_take_a_register_of_every_row() -> None:
    assert KeptRows(65, 8, 2, 40).registers(32) == 3 * (8 + 2) + SCRATCH + 40
