"""The text of pick kernels: what the device function is told, and widths of indices."""

from __future__ import annotations

import pytest

from tests.programs import H200, ints
from tests.schedule.segments import halves, integers, segment_of
from thunder_fuser.codegen.pick_text import pick_lines
from thunder_fuser.ir.build import call
from thunder_fuser.kernel.picks import lower_picks
from thunder_fuser.schedule import picks


def text_of(rows: int, places: int, columns: int, strict: bool = False) -> str:
    x, index = halves(rows, places), integers(rows, places)
    made = call("pick_sum", x, index, dim=1, count=ints([columns]))
    planned = picks.schedule(segment_of([x, index], made), H200)
    text = "\n".join(pick_lines(lower_picks(planned, strict)))
    return text.replace("\x01", "").replace("\x02", "")


def test_short_rows_are_told_apart_by_the_device() -> None:
    """Eight rows of 32 vectors, of which each thread of 256 has one."""
    shape = "tf::sum_picks<float, tf::bf16, 256, 8, 1, 8, 8, true>"
    assert f"{shape}(65536, 32, 256, load, finish);" in text_of(65536, 256, 256)


def test_indices_of_a_vector_fail_together() -> None:
    text = text_of(64, 24, 40)
    assert text.index("column[lane] = ") < text.index("checks.end();")


def test_odd_rows_have_no_loop_over_lanes() -> None:
    text = text_of(64, 23, 41)
    assert "column[0] = T1_1;" in text
    assert "lane" not in text


@pytest.mark.parametrize(("rows", "kind"), [(2**17 - 1, "int"), (2**17 + 1, "long long")])
def test_offsets_from_2_31_on_are_64_bits_wide(rows: int, kind: str) -> None:
    assert f"(const {kind} row, const {kind} vector, " in text_of(rows, 16384, 8)


@pytest.mark.parametrize("strict", [False, True])
def test_a_sum_is_rounded_as_the_trace_says(strict: bool) -> None:
    rounds = "T2_row[lane] = tf::round_to<tf::bf16>(T2_row[lane]);"
    assert (rounds in text_of(64, 24, 40, strict)) == strict
