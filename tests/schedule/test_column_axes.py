"""Where a plane ends in the rows that threads walk, and where lanes lie."""

from __future__ import annotations

import pytest

from thunder_fuser.analysis.digits import divmod_form, evaluate
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.ir.domain import axis
from thunder_fuser.schedule.column_axes import ApartColumns, ColumnAxes
from thunder_fuser.schedule.vector_axes import lane_of
from thunder_fuser.target import WARP


def packs(rows: int, columns: int, elements: int | None) -> ColumnAxes:
    """Packs of so many columns, eight of which are a vector."""
    return ColumnAxes(axis(columns // 8), lane_of(8), axis(rows), elements=elements)


@pytest.mark.parametrize(
    ("elements", "vectors", "has_end"),
    [
        (None, 257, False),
        (1024 * 257, 257, False),
        (1023 * 257, 224, True),
        (1020 * 257, 128, True),
    ],
)
def test_a_plane_ends_in_a_vector_of_the_last_row(
    elements: int | None, vectors: int, has_end: bool
) -> None:
    axes = packs(128, 8 * 257, elements)
    assert (axes.vectors_of_last, axes.has_end) == (vectors, has_end)


def test_all_that_threads_walk_lies_in_the_plane() -> None:
    axes = packs(128, 8 * 257, 1023 * 257)
    row, column = divmod_form(axes.flat, 257)
    assert axes.holds(Window(row, 1023))
    assert not axes.holds(Window(column, 1023))
    assert not axes.holds(Window(row, 1000))
    assert not packs(128, 8 * 257, None).holds(Window(row, 1024))


def test_lanes_that_lie_apart_have_each_column_once() -> None:
    axes = ApartColumns(axis(2 * WARP), lane_of(4), axis(3))
    assert axes.lane is not None
    places = [
        [evaluate(axes.column, {axes.vector: vector, axes.lane: lane}) for vector in range(64)]
        for lane in range(4)
    ]
    assert sorted(place for lane in places for place in lane) == list(range(256))
    assert places[0][:WARP] == list(range(WARP))
    assert places[1][0] == WARP
