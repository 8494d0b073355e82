"""What a thread that walks up knows of the rows behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.programs import chain, pad, piece
from tests.schedule.segments import floats
from thunder_fuser.analysis.access import Demand, demand
from thunder_fuser.analysis.delayed import Delayed, computed, delayed
from thunder_fuser.analysis.digits import atom, shift, unflatten
from thunder_fuser.ir.build import call
from thunder_fuser.ir.domain import IterDomain, axis
from thunder_fuser.ir.tensor import TensorView

SAMPLES, ROWS, COLUMNS = 3, 8, 4


def next_rows(tv: TensorView, rows: int) -> TensorView:
    """The value so many rows behind, zero behind a sample."""
    return piece(pad(tv, [0, 0, 0, rows, 0, 0]), 1, rows, tv.shape[1] + rows)


def made(build: Callable[[TensorView], TensorView]) -> tuple[TensorView, Demand, IterDomain]:
    """A result of a plane, what its element at a row needs, and the rows of all samples."""
    x = floats(SAMPLES, ROWS, COLUMNS)
    row, result = axis(SAMPLES * ROWS), build(x)
    index = (*unflatten(atom(row), [SAMPLES, ROWS]), atom(axis(COLUMNS)))
    return result, demand([(result, index)], {x}), row


def found(build: Callable[[TensorView], TensorView]) -> tuple[Delayed, ...]:
    result, needs, row = made(build)
    return delayed([key for key in needs.elements if key[0] is result], needs, row)


def test_a_costly_value_of_the_next_rows_was_computed_there() -> None:
    value = None

    def build(x: TensorView) -> TensorView:
        nonlocal value
        value = chain(x, "exp", "neg")
        return call("add", value, call("add", next_rows(value, 1), next_rows(value, 2)))

    (line,) = found(build)
    assert line.tensor is value
    assert line.ago == tuple(
        (line.index[0], shift(line.index[1], k), line.index[2]) for k in (1, 2)
    )


def test_a_row_computes_its_own_value_alone() -> None:
    result, needs, row = made(lambda x: call("add", y := chain(x, "exp"), next_rows(y, 3)))
    results = [key for key in needs.elements if key[0] is result]
    lines = delayed(results, needs, row)
    every, alone = needs, computed([*results, *(line.own for line in lines)], needs, lines)
    counts = [
        [tv.definition.op.name for tv, _ in d.elements if tv.definition].count("exp")
        for d in (every, alone)
    ]
    assert counts == [2, 1]
    assert [len(d.leaves) for d in (every, alone)] == [2, 1]


def test_values_made_of_such_values_come_after_them() -> None:
    def build(x: TensorView) -> TensorView:
        inner = chain(x, "exp")
        outer = chain(call("add", inner, next_rows(inner, 1)), "exp")
        return call("add", outer, next_rows(outer, 2))

    assert [len(line.ago) for line in found(build)] == [1, 2]


@pytest.mark.parametrize(
    "build",
    [
        lambda x: call("add", y := chain(x, "neg"), next_rows(y, 1)),
        lambda x: call(
            "add", y := chain(x, "exp"), pad(piece(y, 1, 0, ROWS - 1), [0, 0, 1, 0, 0, 0])
        ),
        lambda x: chain(next_rows(chain(x, "exp"), 1), "neg"),
    ],
    ids=["cheap", "rows before", "one row alone"],
)
def test_what_is_computed_anew(build: Callable[[TensorView], TensorView]) -> None:
    assert found(build) == ()


def test_a_sample_that_goes_on_is_computed_anew() -> None:
    """At its last row but one a row ago was one of the next sample."""

    def build(x: TensorView) -> TensorView:
        y = chain(x, "exp")
        rows = ROWS - 1
        return call("add", piece(y, 1, 0, rows), piece(y, 1, 1, ROWS))

    x = floats(SAMPLES, ROWS, COLUMNS)
    row, result = axis(SAMPLES * (ROWS - 1)), build(x)
    index = (*unflatten(atom(row), [SAMPLES, ROWS - 1]), atom(axis(COLUMNS)))
    assert delayed([(result, index)], demand([(result, index)], {x}), row) == ()
