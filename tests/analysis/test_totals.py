"""Which reductions are over all rows of a plane, and which rows their terms need."""

from __future__ import annotations

import pytest

from tests.programs import chain, permute, piece, reshape, stop, total
from thunder_fuser.analysis.digits import Form, atom, evaluate
from thunder_fuser.analysis.totals import (
    MAX_ROWS,
    is_total,
    reads_own_rows,
    rows_of,
    term_of_total,
    totals_of,
)
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.domain import axis
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView


def floats(*shape: int) -> TensorView:
    return tensor(DataType.Float, *shape)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (total(floats(40, 64), 1), 40),
        (total(floats(5, 8, 64), 2), 40),
        (call("cumsum", floats(40, 64), dim=1, reverse=False), 40),
        (total(floats(40, 64), 0), None),
        (total(floats(40, 32), 1), None),  # a thread sums it
        (total(floats(1, 64), 1), None),
        (floats(40, 64), None),
    ],
    ids=["rows", "of two dims", "running", "columns", "short", "one row", "no reduction"],
)
def test_rows_of_what_reduces_them(made: TensorView, expected: int | None) -> None:
    assert rows_of(made) == expected


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (total(floats(40), 0), True),
        (call("max", floats(5, 8), dims=(0, 1)), True),
        (call("max", floats(1, 40), dims=(1,)), True),
        (total(floats(39), 0), False),
        (total(floats(40, 2), 0), False),
        (call("cumsum", floats(40), dim=0, reverse=False), False),
        (total(tensor(DataType.ComplexFloat, 40), 0), False),
    ],
    ids=["rows", "of two dims", "of one column", "fewer", "columns", "running", "complex"],
)
def test_a_total_has_a_term_per_row_and_one_result(made: TensorView, expected: bool) -> None:
    assert is_total(made, 40) is expected


def test_too_many_rows_have_a_launch_of_their_own() -> None:
    assert is_total(total(floats(MAX_ROWS), 0), MAX_ROWS)
    assert not is_total(total(floats(MAX_ROWS + 1), 0), MAX_ROWS + 1)


def test_a_total_of_nothing_is_none() -> None:
    assert not is_total(total(floats(2048, 0), 0, 1), 0)


def found_in(*outputs: TensorView, inputs: tuple[TensorView, ...]) -> tuple[TensorView, ...]:
    return totals_of(Fusion(inputs, outputs).tensors, frozenset(inputs))


def test_totals_of_rows_and_of_what_is_as_long() -> None:
    x, w = floats(40, 64), floats(40)
    row = total(x, 1)
    of_rows, beside = total(chain(row, "neg"), 0), total(w, 0)
    found = found_in(call("div", of_rows, beside), row, inputs=(x, w))
    assert found == (of_rows, beside)


def test_a_short_sum_is_a_total_where_it_needs_rows() -> None:
    x, w = floats(20, 64), floats(20)
    of_rows, beside = total(total(x, 1), 0), total(w, 0)
    assert found_in(of_rows, beside, inputs=(x, w)) == (of_rows,)


def test_without_rows_there_are_no_totals() -> None:
    w = floats(40)
    assert found_in(total(w, 0), inputs=(w,)) == ()


def test_the_term_at_a_row_is_that_of_the_rows_in_order() -> None:
    row = axis(40)
    term, index = term_of_total(total(floats(5, 8), 0, 1), atom(row))
    places = [tuple(evaluate(f, {row: r}) for f in index) for r in range(40)]
    assert term.shape == (5, 8)
    assert places == [(r // 8, r % 8) for r in range(40)]
    assert term_of_total(total(floats(1, 40), 1), atom(row))[1][0] == Form()


x = floats(5, 8, 64)
sums = total(x, 2)


@pytest.mark.parametrize(
    ("operand", "expected"),
    [
        (chain(sums, "neg"), True),
        (reshape(sums, 40), True),
        (call("add", sums, reshape(piece(x, 2, 3, 4), 5, 8)), True),
        (permute(sums, 1, 0), False),
        (call("add", sums, reshape(permute(sums, 1, 0), 5, 8)), False),
    ],
    ids=["the same", "in one dim", "with an element", "turned", "with another row"],
)
def test_terms_need_the_results_of_their_own_row(operand: TensorView, expected: bool) -> None:
    made = total(operand, *range(operand.ndim))
    assert reads_own_rows(made, {sums}, {x}) is expected


def test_rows_that_are_known_before_are_read_anywhere() -> None:
    made = total(permute(stop(sums), 1, 0), 0, 1)
    assert reads_own_rows(made, (), {x, sums})


def test_an_index_that_rows_make_is_none_that_a_row_can_read_at() -> None:
    table, wide = floats(9), floats(40, 64)
    place = call("cast", total(wide, 1), dtype=DataType.Int)
    made = total(call("index_select", table, place, dim=0), 0)
    (row,) = place.definition.tensors if place.definition is not None else ()
    assert not reads_own_rows(made, {row}, {table, wide})


def test_the_last_element_of_a_running_sum_is_no_result_of_a_row() -> None:
    wide = floats(40, 64)
    running = call("cumsum", wide, dim=1, reverse=False)
    made = total(piece(running, 1, 63, 64), 0, 1)
    assert not reads_own_rows(made, {running}, {wide})
