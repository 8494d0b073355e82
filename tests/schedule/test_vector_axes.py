"""Columns are vectors of lanes."""

from __future__ import annotations

import pytest

from tests.schedule.segments import floats, points
from thunder_fuser.analysis.digits import ZERO, Form, Loaded, atom, evaluate
from thunder_fuser.ir.domain import ParallelType, axis
from thunder_fuser.schedule.vector_axes import VectorAxes, lane_of


@pytest.mark.parametrize("lanes", [1, 4])
def test_vectors_and_lanes_meet_every_column_once(lanes: int) -> None:
    axes = VectorAxes(axis(6), lane_of(lanes))
    assert axes.lanes == lanes
    found = [evaluate(axes.column, point) for point in points(list(axes.names))]
    assert found == list(range(6 * lanes))


def test_one_lane_is_no_axis() -> None:
    assert lane_of(1) is None
    lane = lane_of(8)
    assert lane is not None
    assert lane.parallel_type is ParallelType.VECTORIZE


def test_an_index_is_uniform_where_no_lane_changes_it() -> None:
    axes, table = VectorAxes(axis(6), lane_of(4)), floats(24)

    def held_at(place: Form) -> Loaded:
        return Loaded(table, (place,), 9)

    assert axes.is_uniform(held_at(atom(axes.vector)))
    assert axes.is_uniform(held_at(ZERO))
    assert not axes.is_uniform(held_at(axes.column))
