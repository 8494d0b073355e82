"""Column sums that count what each row has one of."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.programs import expand, full, ints, unsqueeze
from tests.schedule.segments import floats, integers
from thunder_fuser.analysis.counts import counted
from thunder_fuser.analysis.digits import atom, scale, shift
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.domain import axis
from thunder_fuser.ir.tensor import TensorView

ROWS, COLUMNS = 6, 10
INDEX = integers(ROWS)
OTHER = integers(ROWS)
FLOAT = floats(ROWS)
PLANE = integers(ROWS, COLUMNS)
ROW, COLUMN = axis(ROWS), axis(COLUMNS)


def places(start: int = 0, step: int = 1) -> TensorView:
    bounds = sc.constant(start), sc.constant(step)
    count = call("iota", *bounds, length=ints([COLUMNS]), dtype=DataType.Int)
    return expand(unsqueeze(count, 0), ROWS, COLUMNS)


def rows(of: TensorView = INDEX) -> TensorView:
    return expand(unsqueeze(of, 1), ROWS, COLUMNS)


def wide(truths: TensorView) -> TensorView:
    return call("cast", truths, dtype=DataType.Float)


def ones(value: int = 1) -> TensorView:
    return full(value, ROWS, COLUMNS, dtype=DataType.Int)


def chosen(one: TensorView, none: TensorView) -> TensorView:
    return wide(call("where", call("eq", rows(), places()), one, none))


COUNTS: dict[str, Callable[[], TensorView]] = {
    "truths": lambda: wide(call("eq", places(), rows())),
    "a one-hot": lambda: chosen(ones(), ones(0)),
    "one of which 1 is a sum": lambda: chosen(call("add", ones(0), ones()), ones(0)),
}
OTHERS: dict[str, Callable[[], TensorView]] = {
    "all but one": lambda: wide(call("ne", places(), rows())),
    "twice as many": lambda: chosen(ones(2), ones(0)),
    "others too": lambda: chosen(ones(), ones()),
    "other places": lambda: wide(call("eq", places(1), rows())),
    "every other": lambda: wide(call("eq", places(0, 2), rows())),
    "an index of each element": lambda: wide(call("eq", places(), PLANE)),
    "what two rows have": lambda: wide(call("eq", rows(), rows(OTHER))),
    "a float": lambda: wide(call("eq", places(), rows(FLOAT))),
    "a weight": lambda: call("mul", wide(call("eq", places(), rows())), wide(PLANE)),
}
INPUTS = {INDEX, OTHER, FLOAT, PLANE}


@pytest.mark.parametrize("name", COUNTS)
def test_each_row_adds_1_where_it_has_the_column(name: str) -> None:
    found = counted((COUNTS[name](), (atom(ROW), atom(COLUMN))), INPUTS, {COLUMN})
    assert found is not None
    assert found.value == (INDEX, (atom(ROW),))
    assert found.place == atom(COLUMN)


def test_columns_may_begin_elsewhere() -> None:
    vector, lane = axis(COLUMNS // 2), axis(2)
    column = shift(scale(atom(vector), 2), 1)
    found = counted((COUNTS["truths"](), (atom(ROW), column)), INPUTS, {vector, lane})
    assert found is not None
    assert found.place == column


@pytest.mark.parametrize("name", OTHERS)
def test_other_sums_are_none(name: str) -> None:
    assert counted((OTHERS[name](), (atom(ROW), atom(COLUMN))), INPUTS, {COLUMN}) is None
