"""Which accesses pass through strips, and where these begin in memory."""

from __future__ import annotations

import pytest

from tests.programs import expand, permute, total, unsqueeze
from tests.schedule.segments import floats, halves, segment_of
from thunder_fuser.analysis.digits import evaluate
from thunder_fuser.analysis.layout import offset_of
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel import templates
from thunder_fuser.schedule.kept_columns import KeptSchedule, schedule_turned
from thunder_fuser.schedule.rejected import Rejected
from thunder_fuser.segment.segment import Segment
from thunder_fuser.target import HOST


def less_sums(x: TensorView) -> TensorView:
    return call("sub", x, expand(unsqueeze(total(x, x.ndim - 1), x.ndim - 1), *x.shape))


def swapped(rows: int, columns: int, narrow: bool = True) -> Segment:
    x = (halves if narrow else floats)(3, rows, columns)
    return segment_of([x], less_sums(permute(x, 0, 2, 1)))


@pytest.mark.parametrize(
    ("rows", "run", "stride"), [(64, 8, 64), (100, 4, 128), (65, 1, 128), (96, 8, 128)]
)
def test_a_strip_has_rows_of_banks_of_whole_runs(rows: int, run: int, stride: int) -> None:
    found = schedule_turned(swapped(rows, 40), HOST).strip
    assert found is not None
    assert (found.run, found.stride, found.piece.size) == (run, stride, rows // run)
    assert found.width % found.axes.lanes == 0


@pytest.mark.parametrize("columns", [40, 7, 36])
def test_pieces_of_a_strip_are_where_its_elements_are(columns: int) -> None:
    planned = schedule_turned(swapped(48, columns), HOST)
    found, (store,) = planned.strip, planned.segment.stores
    assert found is not None
    (_, index), axes = planned.full[0], planned.axes
    offset = offset_of(planned.segment.layouts[store.target], index)
    start = found.turned(offset)
    assert start is not None
    for column in range(found.column.size):
        for piece in range(found.piece.size):
            row = {axes.row: piece * found.run, axes.vector: column // axes.lanes}
            lane = {} if axes.lane is None else {axes.lane: column % axes.lanes}
            where = evaluate(start, {found.column: column, found.piece: piece})
            assert where == evaluate(offset, {**row, **lane})


def test_rows_that_lie_row_after_row_are_left_to_the_row_template() -> None:
    x = halves(64, 80)
    segment = segment_of([x], less_sums(call("mul", x, permute(permute(x, 1, 0), 1, 0))))
    with pytest.raises(Rejected, match="rows that lie row after row"):
        schedule_turned(segment, HOST)
    assert not isinstance(templates.draft(segment, HOST, False).schedule, KeptSchedule)


def test_what_lies_otherwise_may_be_read_or_stored() -> None:
    x = halves(64, 80)
    stored = schedule_turned(segment_of([x], permute(less_sums(x), 1, 0)), HOST)
    assert "T0 through strips of 8 rows at a time" in str(stored)
    found = templates.draft(swapped(64, 80), HOST, False).schedule
    assert isinstance(found, KeptSchedule)
    assert "T5 through strips of 8 rows at a time" in str(found)
