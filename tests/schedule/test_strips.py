"""Which accesses pass through strips, and where these begin in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from tests.programs import H200, expand, permute, piece, total, unsqueeze
from tests.schedule.segments import floats, halves, segment_of
from thunder_fuser.analysis.digits import evaluate
from thunder_fuser.analysis.layout import offset_of
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel import templates
from thunder_fuser.kernel.kept_ir import KeptKernel
from thunder_fuser.schedule.kept_columns import KeptSchedule, schedule_turned
from thunder_fuser.schedule.rejected import Rejected
from thunder_fuser.schedule.strips import FlatStrip, Strip
from thunder_fuser.segment.segment import Segment
from thunder_fuser.target import HOST, WARP

BANKS, BANK = 32, 4  # banks of shared memory, and bytes of each


def less_sums(x: TensorView) -> TensorView:
    return call("sub", x, expand(unsqueeze(total(x, x.ndim - 1), x.ndim - 1), *x.shape))


def swapped(rows: int, columns: int, narrow: bool = True) -> Segment:
    x = (halves if narrow else floats)(3, rows, columns)
    return segment_of([x], less_sums(permute(x, 0, 2, 1)))


def planned(rows: int, columns: int, narrow: bool = True) -> tuple[KeptSchedule, Strip]:
    found = schedule_turned(swapped(rows, columns, narrow), HOST)
    assert found.strip is not None
    return found, found.strip


@pytest.mark.parametrize(
    ("rows", "columns", "run", "stride"),
    [(64, 64, 8, 72), (100, 64, 4, 104), (64, 65, 2, 66), (40, 196, 4, 44)],
)
def test_columns_of_a_strip_are_an_odd_number_of_their_banks_apart(
    rows: int, columns: int, run: int, stride: int
) -> None:
    _, found = planned(rows, columns)
    assert (found.run, found.stride, found.piece.size) == (run, stride, rows // run)


@pytest.mark.parametrize(
    ("rows", "columns", "run"), [(65, 64, 8), (66, 68, 8), (33, 196, 8), (33, 197, 8)]
)
def test_columns_of_odd_rows_are_copied_as_they_lie(rows: int, columns: int, run: int) -> None:
    _, found = planned(rows, columns)
    assert isinstance(found, FlatStrip)
    assert (found.run, found.piece.size) == (run, 1)
    assert found.width * found.run == found.across * found.axes.lanes * rows
    assert found.column.size * found.run + found.left == 3 * rows * columns
    assert found.left < found.run


def test_columns_with_gaps_between_them_are_padded() -> None:
    x, y = halves(3, 65, 64), halves(3, 64, 80)
    made = less_sums(call("add", permute(x, 0, 2, 1), piece(y, 2, 0, 65)))
    found = schedule_turned(segment_of([x, y], made), HOST).strip
    assert found is not None
    assert not isinstance(found, FlatStrip)


def place(strip: Strip, column: int, row: int) -> int:
    """What `strip_place` returns."""
    stride, lanes, apart = strip.moved
    vector, lane = divmod(column, lanes)
    return (lane * apart + vector) * stride + row


def meetings(places: Iterable[int], size: int) -> int:
    """Most words of one bank that threads with elements of so many bytes at `places` ask for."""
    words = {place * size // BANK for place in places}
    return max(Counter(word % BANKS for word in words).values())


@pytest.mark.parametrize("narrow", [True, False])
@pytest.mark.parametrize("columns", [3136, 196, 1517])
@pytest.mark.parametrize("rows", [33, 36, 40, 64, 100, 192, 768, 1024])
def test_threads_of_a_warp_seldom_meet_a_bank(rows: int, columns: int, narrow: bool) -> None:
    """At the elements of a lane; and seldom at pieces, of which as many are moved at a time as fill
    the banks."""
    found, strip = planned(rows, columns, narrow)
    size = 2 if narrow else 4
    threads = range(found.threads_across * found.threads_down)
    for first in range(0, len(threads), WARP):
        warp = threads[first : first + WARP]
        own = [divmod(t, found.threads_across) for t in warp]
        for lane in range(strip.axes.lanes):
            start = lane * strip.lane_step
            places = [p * strip.vector_step + start + part for part, p in own]
            assert meetings(places, size) <= (2 if isinstance(strip, FlatStrip) else 1)
        together = BANKS * BANK // (strip.run * size)
        pieces = [divmod(t, strip.piece.size) for t in warp[:together]]
        starts = [place(strip, column, k * strip.run) for column, k in pieces]
        assert meetings((s + k for s in starts for k in range(strip.run)), size) <= 3


@pytest.mark.parametrize("columns", [40, 7, 36])
def test_pieces_of_a_strip_are_where_its_elements_are(columns: int) -> None:
    schedule, found = planned(48, columns)
    (store,) = schedule.segment.stores
    (_, index), axes = schedule.full[0], schedule.axes
    offset = offset_of(schedule.segment.layouts[store.target], index)
    start = found.turned(offset)
    assert start is not None
    for column in range(found.column.size):
        for k in range(found.piece.size):
            row = {axes.row: k * found.run, axes.vector: column // axes.lanes}
            lane = {} if axes.lane is None else {axes.lane: column % axes.lanes}
            where = evaluate(start, {found.column: column, found.piece: k})
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


def test_what_is_written_in_place_has_two_strips() -> None:
    def written(rows: int) -> Segment:
        x = floats(8, rows)
        less = less_sums(x)
        return segment_of([x], permute(less, 1, 0), writes=[(less, x)])

    kernel = templates.draft(written(3600), H200, False).lower(False)
    assert isinstance(kernel, KeptKernel)
    assert kernel.shared_bytes == 2 * 8 * 3600 * 4
    with pytest.raises(Rejected, match="too long to be kept"):
        schedule_turned(written(4000), H200)
