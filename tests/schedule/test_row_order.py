"""Rows that are stored in another order than they are read in: which of them blocks follow."""

from __future__ import annotations

import pytest

from tests.programs import H200, permute
from tests.schedule.segments import floats, segment_of
from tests.schedule.test_stored_rows import normalised
from thunder_fuser.schedule import rows
from thunder_fuser.schedule.row_order import stored_order


@pytest.mark.parametrize(
    ("columns", "follows_stores"),
    [(40, True), (64, True), (512, True), (36, False), (520, False), (4096, False)],
)
def test_blocks_follow_the_stores_of_short_rows_of_whole_sectors(
    columns: int, follows_stores: bool
) -> None:
    x = floats(6, 4, columns)
    schedule = rows.schedule(segment_of([x], permute(normalised(x), 1, 0, 2)), H200)
    (stored,) = (line for line in str(schedule).splitlines() if "store whole rows" in line)
    dims = "(group/6), (group%6)" if follows_stores else "(group%4), (group/4)"
    assert f"[{dims}, " in stored


def test_rows_in_order_stay_as_they_are() -> None:
    x = floats(6, 4, 64)
    assert stored_order(rows.schedule(segment_of([x], normalised(x)), H200)) is None
