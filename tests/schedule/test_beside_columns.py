"""Which sums over columns a kernel that keeps columns has beside its own."""

from __future__ import annotations

import pytest

from tests.programs import expand, ints, total, unsqueeze
from tests.schedule.segments import floats, integers, segment_of
from thunder_fuser.ir.build import call
from thunder_fuser.schedule.beside_columns import beside
from thunder_fuser.schedule.columns import column_axes
from thunder_fuser.schedule.rejected import Rejected


def test_a_sum_by_an_index_is_none_of_them() -> None:
    """It has no axis that is reduced."""
    x, index, count = floats(8, 64), integers(8), ints([5])
    order = call("group_order", index, count=count)
    ends = call("group_ends", call("group_keys", index, order, count=count), count=count)
    by_index = call("group_sum", x, order, ends, dim=0, skip=-1)
    centred = call("sub", x, expand(unsqueeze(total(x, 0), 0), 8, 64))
    segment = segment_of([x, index], centred, by_index)
    axes = column_axes(segment, segment.long, 8, 64, 16)
    with pytest.raises(Rejected, match="sums over other columns"):
        beside(segment, [by_index], axes)
