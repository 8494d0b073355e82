"""Loops over a thread's vectors of a row: which are unrolled, tested, told of the row's ends."""

from __future__ import annotations

from tests.programs import total
from tests.schedule.segments import halves, segment_of
from thunder_fuser.codegen.row_loops import over_vectors, with_inner
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.kernel.rows import lower_rows
from thunder_fuser.schedule import rows
from thunder_fuser.schedule.parameters import RowParameters
from thunder_fuser.target import HOST


def summed(x: TensorView, **parameters: bool) -> RowKernel:
    """Rows that are summed, of too many rows for a row to be shared."""
    planned = rows.schedule(segment_of([x], total(x, 1)), HOST, RowParameters(**parameters))
    return lower_rows(planned, strict=False)


def plain(lines: list[str]) -> str:
    """Without the marks of literals."""
    return "\n".join("".join(c for c in line if c >= " ") for line in lines)


def test_vectors_in_registers_are_unrolled_and_only_the_last_ones_tested() -> None:
    text = plain(over_vectors(summed(halves(4096, 8 * 100)), ["work(k);"]))
    assert text.startswith("#pragma unroll\nfor (int k = 0; k < ")
    assert "<= 100 || vector < 100) {\n    work(k);" in text


def test_rows_that_divide_evenly_are_not_tested() -> None:
    assert "if (" not in plain(over_vectors(summed(halves(4096, 1024)), ["work(k);"]))


def test_the_first_threads_have_a_vector_of_each_place_of_a_run() -> None:
    x = halves(4096, 63)
    planned = rows.schedule(segment_of([x], call("cumsum", x, dim=1, reverse=False)), HOST)
    text = plain(over_vectors(lower_rows(planned, strict=False), ["work(k);"]))
    assert "const int vector = part * 16 + k;\n  if (part < (63 - k + 15) / 16) {" in text


def test_nothing_to_do_is_no_loop() -> None:
    assert over_vectors(summed(halves(4096, 1024)), []) == []


def test_only_what_asks_whether_a_vector_is_inside_its_row_is_told() -> None:
    kernel = summed(halves(4096, 4097))
    assert kernel.axes.is_shifted
    assert with_inner(kernel, ["work(k);"]) == ["work(k);"]
    told = plain(with_inner(kernel, ["if (is_inner) work(k);"]))
    assert "if (warp > 0 && warp + 32 < 512) done(tf::Yes{});\nelse done(tf::No{});" in told
