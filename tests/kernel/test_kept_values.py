"""What a kernel of kept columns computes once, as its IR."""

from __future__ import annotations

from tests.test_tall_kernels import kernel_of


def test_shares_are_made_before_the_phases_and_read_at_rows() -> None:
    before, behind = str(kernel_of(64, 40, 12544)).split("phase 0")
    assert before.count("_rows[own] = ") == before.count("div(") == 2
    assert behind.count("_rows_own") == 4
    assert behind.count("div(") == 1


def test_what_a_phase_leaves_is_computed_by_no_other() -> None:
    text = str(kernel_of(64, 40, 12544))
    assert text.count("exp(") == 1
    assert "mul(T10_held[k][lane], " in text
