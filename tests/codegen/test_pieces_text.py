"""The text of rows of which warps reduce pieces."""

from __future__ import annotations

import pytest

from tests.programs import H200, chain
from tests.schedule.segments import floats, halves
from tests.schedule.test_row_pieces import segment
from thunder_fuser.codegen.column_text import column_lines
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.templates import draft


def text(x: TensorView, given: TensorView | None = None) -> str:
    kernel = draft(segment(x, given=given), H200, strict=False).lower(strict=False)
    return "\n".join(line.strip() for line in column_lines(kernel))


def test_only_the_last_batch_of_a_warp_asks_whether_there_is_a_row() -> None:
    whole, last = text(floats(2048, 2048)).split("if (start < ")
    assert "row < " not in whole
    assert "tf::clear(T5_terms);" in last
    assert last.count("if (row < ") == 2
    assert "if (place % 4 == 0 && row < " in last


def test_each_batch_is_reduced_both_ways() -> None:
    found = text(floats(2048, 2048))
    assert found.count("tf::both_ways<8>(T5_part, T3_part, T5_terms, start == first + part)") == 2
    assert found.index("tf::below_tops(T5_part, T3_part);") < found.index("T5_parts[part]")


@pytest.mark.parametrize(
    ("op", "values"), [("neg", "T7_terms"), ("abs", "T7_terms"), ("", "v0_rows")]
)
def test_elements_as_they_come_from_memory_are_taken_in_pairs(op: str, values: str) -> None:
    x = halves(2048, 2048)
    wide = call("cast", x, dtype=DataType.Float)
    assert f"{values}, start ==" in text(chain(wide, op) if op else wide, x)
