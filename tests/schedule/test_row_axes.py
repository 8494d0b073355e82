"""Rows as vectors: of any length, also where they begin in the middle of one."""

from __future__ import annotations

import pytest

from tests.programs import total
from tests.schedule.segments import floats, halves, points, segment_of
from thunder_fuser.analysis.digits import evaluate
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.row_axes import RowAxes, is_of_row, row_axes


def axes_of(x: TensorView) -> RowAxes:
    reduced = total(x, 1)
    rows, columns = x.shape
    return row_axes(segment_of([x], reduced), [reduced], (rows, columns), 1)


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


def test_what_depends_on_row_and_place_is_of_the_row() -> None:
    axes = axes_of(halves(3, 512))
    assert is_of_row(axes.flat, axes)
    assert not is_of_row(axes.column, axes)
    assert not is_of_row(axes.row, axes)
