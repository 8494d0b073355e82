"""Where the parts of a shared reduction lie in the workspace."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from tests.programs import H200, expand, fusion, like, total, unsqueeze
from tests.schedule.segments import floats, segment_of
from thunder_fuser.analysis.totals import MAX_ROWS
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.kernel.rows import lower_rows
from thunder_fuser.kernel.scopes import Accumulator
from thunder_fuser.kernel.split_ir import (
    ALIGNMENT,
    MIN_BUNDLE,
    Bundles,
    Room,
    Split,
    accumulators_of,
    bundles_left,
    bundles_of,
    room_of,
    rows_left,
    split_of,
    ticket_of_tail,
)
from thunder_fuser.kernel.templates import draft, variants
from thunder_fuser.ops import op
from thunder_fuser.pipeline import cut_region
from thunder_fuser.presegment import arrange, tidy
from thunder_fuser.runtime.bind import bind
from thunder_fuser.schedule.rows import schedule as schedule_rows


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
    kernel = lower_rows(schedule_rows(segment, H200), strict=False)
    assert rows_left(kernel) == (0, 224, 448)  # 53 floats, aligned
    assert bundles_left(kernel) == (448, 464, 480)  # one of each
    assert room_of(kernel) == Room(480, 1)


@pytest.mark.parametrize(
    ("rows", "size", "count"),
    [
        (2, 256, 1),
        (256, 256, 1),
        (257, 256, 2),
        (65536, 256, 256),
        (65537, 512, 129),
        (1 << 20, 1024, 1024),
        (MAX_ROWS, 2048, 2048),
    ],
)
def test_bundles_are_about_as_many_as_their_rows(rows: int, size: int, count: int) -> None:
    x = floats(rows, 64)
    segment = segment_of([x], total(total(x, 1), 0))
    kernel = lower_rows(schedule_rows(segment, H200), strict=False)
    assert bundles_of(kernel) == Bundles(size, count)
    assert size % kernel.rows_per_block == 0
    room = room_of(kernel)
    assert room is not None
    assert room.tickets == (count + 1 if count > 1 else 1)


def test_blocks_have_rows_of_one_bundle_whatever_their_parameters() -> None:
    """Of rows of one thread, beside what is stored of them."""
    x = torch.empty(12000, 17, dtype=torch.float64)
    (a,) = like(x)
    top = call("max", a, dims=(1,))
    stored = call("sub", a, expand(unsqueeze(top, 1), *a.shape))
    bound = bind(fusion([a], stored, total(top, 0)), [x])
    arranged = arrange(tidy(bound.fusion), bound.layouts, H200, strict=True)
    (segment,) = cut_region(arranged, bound.layouts, H200, strict=True).segments
    preferred = draft(segment, H200, strict=True)
    kernels = [d.lower(True) for d in (preferred, *variants(segment, H200, preferred))]
    rows = [k for k in kernels if isinstance(k, RowKernel)]
    assert max(k.rows_per_block for k in rows) == MIN_BUNDLE
    assert all(bundles_of(k).size % k.rows_per_block == 0 for k in rows)
    assert len({room_of(k) for k in rows}) == 1


def test_the_terms_of_rows_lie_behind_the_parts_that_blocks_share() -> None:
    x = floats(150, 1 << 20)
    segment = segment_of([x], total(total(x, 1), 0))
    kernel = lower_rows(schedule_rows(segment, H200), strict=False)
    split = split_of(kernel)
    assert split is not None
    (start, end) = rows_left(kernel)
    assert start == split.starts(accumulators_of(kernel))[-1] >= 150 * kernel.splits * 4
    assert bundles_left(kernel)[0] == end
    assert (ticket_of_tail(kernel), room_of(kernel)) == (150, Room(bundles_left(kernel)[1], 151))
