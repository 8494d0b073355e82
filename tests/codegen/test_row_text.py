"""What a block of rows waits for, as text."""

from __future__ import annotations

from tests.programs import H200, expand, total, unsqueeze
from tests.schedule.segments import floats, integers, segment_of
from thunder_fuser.codegen.row_text import row_lines
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.kernel.rows import lower_rows
from thunder_fuser.schedule import rows


def kernel_of(inputs: list[TensorView], *outputs: TensorView) -> RowKernel:
    return lower_rows(rows.schedule(segment_of(inputs, *outputs), H200), strict=False)


def unmarked(lines: list[str]) -> list[str]:
    """Without the marks of literals."""
    return ["".join(c for c in line if c >= " ") for line in lines]


def lines_of(inputs: list[TensorView], *outputs: TensorView) -> list[str]:
    return unmarked(row_lines(kernel_of(inputs, *outputs)))


def first(lines: list[str], part: str) -> int:
    return next(number for number, line in enumerate(lines) if part in line)


def test_a_row_is_on_its_way_before_an_index_into_it_is_waited_for() -> None:
    x, index = floats(300, 4096), integers(300, 1)
    chosen = call("take_along_axis", x, index, dim=1)
    lines = lines_of([x, index], total(x, 1), chosen)
    assert first(lines, "tf::load<float, 4, 16>(T0") < first(lines, "tf::in_range(")


def test_a_row_that_lies_at_an_index_follows_it() -> None:
    table, index = floats(50, 4096), integers(300)
    row = call("index_select", table, index, dim=0)
    top = expand(unsqueeze(call("max", row, dims=(1,)), 1), 300, 4096)
    lines = lines_of([table, index], call("sub", row, top))
    assert first(lines, "tf::in_range(") < first(lines, "tf::load<float, 4, 16>(T0")


def test_the_next_part_of_a_long_row_is_on_its_way_while_one_is_scanned() -> None:
    x = floats(500, 40_000)
    text = "\n".join(lines_of([x], call("cumsum", x, dim=1, reverse=True)))
    loop = text[text.index("while (first >= 0) {") :]
    ahead, scanned = loop.index("const int first = next;"), loop.index("tf::scan_row<")
    loaded, moved = loop.index("tf::load<float, 4, 16>(T0"), loop.index("first = next;\n  __")
    assert ahead < loaded < scanned < moved


def test_it_is_not_where_what_follows_needs_this_one() -> None:
    x = floats(500, 40_000)
    scan = call("cumsum", x, dim=1, reverse=False)
    text = "\n".join(lines_of([x], call("mul", scan, x)))
    loop = text[text.index("while (first < 10000) {") :]
    assert loop.index("tf::load<float, 4, 16>(T0") < loop.index("T1_scan[k][lane] =")
    assert "const int first = next;" not in text
