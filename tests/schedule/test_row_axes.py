"""Rows as vectors: of any length, also where they begin in the middle of one."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest

from tests.programs import chain, expand, total, unsqueeze
from tests.schedule.segments import floats, halves, points, segment_of
from thunder_fuser.analysis.digits import atom, combine, divmod_form, evaluate, shift
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.row_axes import (
    RowAxes,
    is_of_all_rows,
    is_of_row,
    row_axes,
    weights_of,
)


def axes_of(x: TensorView) -> RowAxes:
    reduced = total(x, 1)
    rows, columns = x.shape
    return row_axes(segment_of([x], reduced), [reduced], (rows, columns), 1, rows)


@pytest.mark.parametrize("x", [halves(3, 512), halves(3, 515), floats(5, 1001), floats(3, 66)])
def test_vectors_and_lanes_meet_every_place_of_a_row_once(x: TensorView) -> None:
    axes = axes_of(x)
    rows, columns = x.shape
    every = [axes.group, axes.vector, *([axes.lane] if axes.lane is not None else [])]
    met: list[tuple[int, int]] = []
    for point in points(every):
        row, column = (evaluate(form, {**point, axes.turn: 0}) for form in (axes.row, axes.column))
        if all(0 <= evaluate(w.form, {**point, axes.turn: 0}) < w.extent for w in axes.inside):
            met.append((row, column))
    assert sorted(met) == [(row, column) for row in range(rows) for column in range(columns)]


def test_only_long_rows_begin_in_the_middle_of_a_vector() -> None:
    assert axes_of(halves(3, 515)).is_shifted
    assert not axes_of(halves(3, 131)).is_shifted


@pytest.mark.parametrize("of_row", [True, False])
@pytest.mark.parametrize("shape", [(515, 515), (2, 515, 515)])
def test_what_a_square_has_once_a_row_is_no_weight(of_row: bool, shape: tuple[int, ...]) -> None:
    x, values = halves(*shape), halves(*shape[:-1])
    spread = expand(unsqueeze(values, len(shape) - 2 + of_row), *shape)
    reduced = total(call("sub", x, spread), len(shape) - 1)
    segment, plane = segment_of([x, values], reduced), (prod(shape[:-1]), 515)
    assert weights_of(segment, plane) == (not of_row)
    assert row_axes(segment, [reduced], plane, 1, plane[0]).is_shifted == of_row


def test_no_term_of_a_square_s_sums_is_looked_at_to_tell_its_weights() -> None:
    """Where a dim has a million, there is no memory for them."""
    size = 1 << 20
    x, values = halves(size, size), halves(size)
    centred = call("sub", x, expand(unsqueeze(total(x, 1), 1), size, size))
    stored = call("mul", centred, expand(unsqueeze(values, 0), size, size))
    assert weights_of(segment_of([x, values], stored), (size, size)) == 1


@pytest.mark.parametrize(
    ("names", "columns", "is_stored", "expected"),
    [
        (("tanh", "exp"), 577, True, False),
        (("tanh",), 577, True, True),
        (("tanh", "exp"), 577, False, True),
        (("tanh", "exp"), 1025, True, True),  # a block's threads have as many as the row
    ],
)
def test_rows_of_costly_values_are_of_single_elements(
    names: tuple[str, ...], columns: int, is_stored: bool, expected: bool
) -> None:
    x = halves(5, columns)
    y = chain(x, *names)
    reduced = total(y, 1)
    results = (
        [call("mul", y, expand(unsqueeze(reduced, 1), 5, columns))] if is_stored else [reduced]
    )
    segment = segment_of([x], *results)
    assert row_axes(segment, [reduced], (5, columns), 1, 5).is_shifted == expected


def test_what_depends_on_row_and_place_is_of_the_row() -> None:
    axes = axes_of(halves(3, 512))
    assert is_of_row(axes.flat, axes)
    assert not is_of_row(axes.column, axes)
    assert not is_of_row(axes.row, axes)


@pytest.mark.parametrize("x", [halves(3, 512), halves(3, 515), floats(1, 1001)])
def test_that_a_place_lies_in_the_row_is_told_of_windows_of_its_dims(x: TensorView) -> None:
    axes = axes_of(x)
    columns = axes.columns
    assert axes.is_inside(Window(axes.column, columns))
    for inner in (d for d in range(2, columns) if columns % d == 0):
        assert axes.is_inside(Window(divmod_form(axes.column, inner)[0], columns // inner))
    assert not axes.is_inside(Window(axes.column, columns - 1))
    assert not axes.is_inside(Window(shift(axes.column, 1), columns))
    assert not axes.is_inside(Window(axes.row, axes.rows)) or axes.rows == 1


def dealt(rows: int, groups: int, turns: int) -> RowAxes:
    """So many rows, dealt to groups one after another."""
    x = floats(rows, 512)
    reduced = total(x, 1)
    axes = row_axes(segment_of([x], reduced), [reduced], (rows, 512), turns, groups)
    return replace(axes, row=combine(atom(axes.turn), atom(axes.group), groups))


@pytest.mark.parametrize(
    ("rows", "groups", "turns", "fewest"), [(12, 3, 4, 4), (11, 3, 4, 3), (10, 3, 4, 3)]
)
def test_where_rows_are_dealt_unevenly_some_groups_have_fewer_turns(
    rows: int, groups: int, turns: int, fewest: int
) -> None:
    axes = dealt(rows, groups, turns)
    assert axes.is_uneven == (rows != groups * turns)
    assert axes.fewest == fewest
    counts = [
        sum(evaluate(axes.row, {axes.group: g, axes.turn: t}) < rows for t in range(turns))
        for g in range(groups)
    ]
    assert min(counts) == fewest
    assert sum(counts) == rows


def test_that_there_is_such_a_row_is_known_wherever_blocks_walk() -> None:
    axes = dealt(90, 7, 13)
    assert axes.holds(Window(axes.row, 90))
    assert axes.holds(Window(divmod_form(axes.row, 15)[0], 6))  # of 6 x 15
    assert axes.holds(Window(axes.flat, 90 * 512))  # of all elements in one dim
    assert not axes.holds(Window(axes.row, 89))
    assert not axes.holds(Window(axes.row, 91))
    assert not axes.holds(Window(shift(axes.row, 1), 90))
    assert not axes.holds(Window(axes.column, 512))


def test_of_sides_that_are_kept_each_has_a_row_of_every_turn() -> None:
    axes = replace(dealt(24, 6, 4), rows=24).keeping_sides(3)
    assert axes.side is not None
    assert (axes.group.size, axes.side.size, axes.sums) == (2, 3, 6)
    assert not axes.is_ragged
    rows = {
        evaluate(axes.row, point): evaluate(axes.summed, point)
        for point in points([axes.group, axes.turn, axes.side])
    }
    assert rows == {row: row % 6 for row in range(24)}


def test_what_such_sides_have_alike_in_all_turns_is_as_weights() -> None:
    axes = dealt(24, 6, 4).keeping_sides(3)
    shared = combine(axes.summed, axes.column, 512)
    assert is_of_all_rows(shared, axes)
    assert not is_of_row(shared, axes)
    assert is_of_row(axes.flat, axes)
    assert not is_of_all_rows(axes.flat, axes)
    assert not is_of_all_rows(shared, replace(axes, keeps_sides=False))


def test_an_element_that_sums_neighbours_is_a_lane_alone() -> None:
    """Whose terms are a vector: of a cross entropy over 16 classes, beside vectors of targets."""
    x, y = halves(4096, 16), floats(4096)
    terms = call("mul", total(x, 1), y)
    reduced = total(terms, 0)
    assert row_axes(segment_of([x, y], reduced), [reduced], (1, 4096), 1, 1).lanes == 1
    other = total(call("mul", y, y), 0)
    assert row_axes(segment_of([y], other), [other], (1, 4096), 1, 1).lanes == 4
