"""Where the parts of a shared reduction lie in the workspace."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.programs import H200, total
from tests.schedule.segments import floats, segment_of
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.kernel.row_ir import Accumulator
from thunder_fuser.kernel.rows import lower_rows
from thunder_fuser.kernel.split_ir import (
    ALIGNMENT,
    Room,
    Split,
    accumulators_of,
    room_of,
    rows_left,
    split_of,
    ticket_of_tail,
)
from thunder_fuser.ops import op
from thunder_fuser.schedule import rows


def accumulator(dtype: DataType) -> Accumulator:
    return Accumulator(f"{dtype}", dtype, op("sum"))


def test_each_accumulator_has_room_for_every_part_of_every_group() -> None:
    found = Split(parts=3, groups=5, width=7).starts(
        [accumulator(DataType.Float), accumulator(DataType.Int), accumulator(DataType.Bool)]
    )
    sizes = [b - a for a, b in pairwise(found)]
    for size, itemsize in zip(sizes, (4, 8, 1), strict=True):
        assert 0 <= size - 3 * 5 * 7 * itemsize < ALIGNMENT
    assert all(start % ALIGNMENT == 0 for start in found)


@pytest.mark.parametrize("dtype", [DataType.BFloat16, DataType.Half])
def test_sixteen_bits_are_kept_as_thirty_two(dtype: DataType) -> None:
    assert accumulator(dtype).itemsize == 4


def test_a_kernel_of_another_template_shares_nothing() -> None:
    assert split_of(None) is None
    assert accumulators_of(None) == ()
    assert room_of(None) is None


def test_every_row_has_room_for_its_term_of_each_total() -> None:
    x = floats(53, 64)
    row = total(x, 1)
    segment = segment_of([x], total(row, 0), call("max", row, dims=(0,)))
    kernel = lower_rows(rows.schedule(segment, H200), strict=False)
    assert rows_left(kernel) == (0, 224, 448)  # 53 floats, aligned
    assert room_of(kernel) == Room(448, 1)


def test_the_terms_of_rows_lie_behind_the_parts_that_blocks_share() -> None:
    x = floats(150, 1 << 20)
    segment = segment_of([x], total(total(x, 1), 0))
    kernel = lower_rows(rows.schedule(segment, H200), strict=False)
    split = split_of(kernel)
    assert split is not None
    (start, end) = rows_left(kernel)
    assert start == split.starts(accumulators_of(kernel))[-1] >= 150 * kernel.splits * 4
    assert (ticket_of_tail(kernel), room_of(kernel)) == (150, Room(end, 151))
