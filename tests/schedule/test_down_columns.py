"""Sums down the columns of rows that are walked: which rows they take, and what is refused."""

from __future__ import annotations

import pytest

from tests.programs import total
from tests.schedule.segments import floats, halves, segment_of
from tests.schedule.test_sides import dealt
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule import rows
from thunder_fuser.schedule.down_columns import turns_of
from thunder_fuser.schedule.rejected import Rejected
from thunder_fuser.schedule.row_schedule import RowSchedule
from thunder_fuser.target import HOST


def scheduled(x: TensorView, *results: TensorView) -> RowSchedule:
    return rows.schedule(segment_of([x], total(x, 1), *results), HOST)


def test_a_cast_of_a_sum_is_stored_in_its_place() -> None:
    x = halves(1024, 64)
    down = dealt(call("cast", x, dtype=floats(1).dtype), 8, 32)
    narrow = call("cast", down, dtype=x.dtype)
    ((store, _),) = scheduled(x, narrow).columns.stores
    assert store.value is narrow


def test_what_reads_the_sums_of_all_groups_is_refused() -> None:
    x = floats(1024, 64)
    with pytest.raises(Rejected, match="read before all blocks are done"):
        scheduled(x, total(dealt(x, 8, 32), 0))


def test_sums_that_walk_other_numbers_of_rows_are_refused() -> None:
    x = floats(1024, 64)
    down = [dealt(x, 8, 32), dealt(x, 16, 32)]
    with pytest.raises(Rejected, match=r"column sums of \[64, 128\] terms"):
        turns_of(down)
    assert turns_of(down[:1]) == 128
    assert turns_of([]) == 1
