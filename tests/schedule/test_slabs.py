"""Which transposes take all of a short axis in one block, and where turned accesses begin."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from tests.programs import (
    chain,
    check,
    expand,
    fusion,
    like,
    patches,
    permute,
    swapped,
    unsqueeze,
    whole,
)
from tests.schedule.segments import floats, halves, points, segment_of
from thunder_fuser.analysis.digits import evaluate
from thunder_fuser.analysis.layout import Layout, offset_of
from thunder_fuser.codegen.emit import emit
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.domain import axis
from thunder_fuser.kernel.lower import lower
from thunder_fuser.schedule import map
from thunder_fuser.schedule.parameters import MapParameters
from thunder_fuser.schedule.slabs import pitch
from thunder_fuser.schedule.vectorize import VectorClass
from thunder_fuser.segment.segment import Segment
from thunder_fuser.target import WARP


def class_of(segment: Segment, busy: int = 1) -> VectorClass:
    """The class that has all elements but those that are no whole run."""
    return map.schedule(segment, MapParameters(busy=busy)).classes[0]


def shape_of(segment: Segment, busy: int = 1) -> str:
    return str(class_of(segment, busy).tile)


def printed(segment: Segment) -> list[str]:
    return str(map.schedule(segment, MapParameters())).splitlines()[1:]


def test_a_block_takes_all_of_a_short_axis() -> None:
    x = halves(2, 100, 4096)
    assert printed(segment_of([x], chain(swapped(x), "neg"))) == [
        "  class over i0{2}, i1{512}, i2{100} and lane{8}, in slabs of 100 x 64",
        "    T2[i0, 8*i1 + lane, i2]",
    ]


def test_it_takes_several_images_where_both_axes_are_short() -> None:
    x = halves(600, 16, 49)
    assert printed(segment_of([x], chain(swapped(x), "neg"))) == [
        "  class over i0{1200}, i1{49} and lane{8}, in slabs of 49 x 80",
        "    T2[(i0/2), i1, 8*(i0%2) + lane]",
    ]


def test_it_takes_images_of_images() -> None:
    """Blocks of 4 x 4 become channels."""
    x = halves(64, 32, 4, 64, 4)
    assert printed(segment_of([x], chain(permute(x, 0, 2, 4, 1, 3), "neg"))) == [
        "  class over i0{64}, i1{1024}, i2{4} and lane{8}, in slabs of 4 x 1024",
        "    T2[i0, ((i1/8)%4), i2, (i1/32), 8*(i1%8) + lane]",
    ]


def test_places_side_by_side_of_patches_are_images_of_each_other() -> None:
    """Threads side by side take those of a row of patches; what they store goes on with the next
    row's. No block has room for 313 channels of two rows, which are places in two orders."""
    x = halves(3, 313, 4, 64)
    assert printed(segment_of([x], chain(patches(x, 2, 2), "neg"))) == [
        "  class over i0{3}, i1{2}, i2{313}, i3{64} and lane{2}, in slabs of 313 x 8",
        "    T4[i0, 32*i1 + (i3/2), 626*(i3%2) + 313*lane + i2]",
    ]
    tile = class_of(segment_of([x], chain(patches(x, 2, 2), "neg"))).tile
    assert tile is not None
    assert (tile.computed.beside, tile.lanes, tile.run) == (4, 2, 8)


def test_what_is_not_turned_is_moved_one_by_one_where_rows_align_nothing() -> None:
    """Of whichever images, so that runs of what is turned are of all; the places behind the last
    run are a class of their own."""
    x = halves(3, 31, 1517)
    assert printed(segment_of([x], chain(swapped(x), "neg"))) == [
        "  class over i0{4544}, i1{31}, in slabs of 31 x 128",
        "    T2[(i0/1517), (i0%1517), i1]",
        "  class over i0{7}, i1{31}",
        "    T2[2, 1510 + i0, i1]",
    ]


def test_they_are_not_written_past_the_cache_which_puts_their_lines_together() -> None:
    x = halves(300, 1517, 31)
    parameters = MapParameters(busy=1, streamed=1)
    whole, left = map.schedule(segment_of([x], chain(swapped(x), "neg")), parameters).classes
    assert whole.tile is not None
    assert (whole.streams, left.streams) == (None, None)


def test_of_two_short_axes_the_longer_one_is_walked_as_it_lies() -> None:
    for extents in ((900, 9, 49), (900, 49, 9)):
        x = halves(*extents)
        tile = class_of(segment_of([x], chain(swapped(x), "neg"))).tile
        assert tile is not None
        assert (tile.down.size, tile.computed.keeps) == (9, True)


@pytest.mark.parametrize("extents", [(300, 49, 77), (300, 77, 49), (300, 49, 49)])
def test_of_two_longer_ones_what_is_read_is_turned(extents: tuple[int, ...]) -> None:
    """Copies to shared memory fill no registers, as loads of many elements do."""
    x = halves(*extents)
    tile = class_of(segment_of([x], chain(swapped(x), "neg"))).tile
    assert tile is not None
    assert (tile.down.size, tile.lanes, tile.run) == (extents[2], 1, 8)


def test_rows_shorter_than_a_sector_are_walked_as_they_lie() -> None:
    x = halves(900, 9, 9)
    tile = class_of(segment_of([x], chain(swapped(x), "neg"))).tile
    assert tile is not None
    assert (tile.computed.beside, tile.computed.keeps) == (1, False)


def test_runs_of_rows_that_lie_apart_are_as_wide_as_their_images_are_aligned() -> None:
    x = halves(30, 31, 1517)
    made = chain(swapped(x), "neg")
    apart = Layout((30, 1517, 31), (1517 * 31 + 1, 31, 1))
    tile = class_of(segment_of([x], made, lies={made: apart})).tile
    assert tile is not None
    assert (str(tile), tile.run) == ("slabs of 31 x 128", 4)


def test_two_places_of_dense_rows_are_not_turned() -> None:
    """A thread has both."""
    x = halves(600, 31, 2)
    for found in map.schedule(segment_of([x], chain(swapped(x), "neg")), MapParameters()).classes:
        assert found.tile is None


@pytest.mark.parametrize(
    ("extents", "expected"),
    [
        ((3, 31, 4096), "slabs of 31 x 128"),  # squares have one lane
        ((3, 16, 4096), "slabs of 16 x 256"),  # squares are empty
        ((3, 96, 4096), "slabs of 96 x 64"),
        ((3, 12, 4096), "slabs of 12 x 320"),  # not even squares would do
        ((3, 4096, 3), "slabs of 3 x 1344"),
        ((3, 250, 4096), "slabs of 250 x 32"),  # not more than 8 vectors a thread
        ((9, 196, 256), "slabs of 196 x 32"),
        ((900, 196, 40), "slabs of 196 x 40"),  # one block for two, of which one had a fifth
        ((900, 196, 72), "slabs of 196 x 40"),
        ((900, 196, 48), "slabs of 196 x 32"),
        ((9, 100, 196), "slabs of 100 x 32"),  # both have four lanes: squares are a fifth empty
        ((3, 128, 4096), "squares of 64 x 64"),
        ((3, 120, 4096), "squares of 64 x 64"),
        ((9, 289, 64), "slabs of 289 x 32"),  # 17 x 17 places
        ((3, 332, 4096), "sheared squares of 64 x 64"),
        ((3, 31, 4095), "slabs of 31 x 128"),  # vectors of one side
        ((3, 150, 1517), "slabs of 150 x 64"),  # squares have pairs of it
        ((900, 9, 49), "slabs of 9 x 512"),
        ((900, 9, 9), "slabs of 9 x 512"),
        ((3, 152, 1517), "slabs of 152 x 64"),  # squares are a fifth empty
        ((3, 184, 1517), "squares of 64 x 64 that are loaded late"),
        ((3, 331, 1517), "squares of 32 x 32"),
    ],
)
def test_slabs_have_wider_vectors_than_squares_or_are_fuller(
    extents: tuple[int, ...], expected: str
) -> None:
    x = halves(*extents)
    assert shape_of(segment_of([x], chain(swapped(x), "neg"))) == expected


def test_few_elements_are_squares_of_more_blocks() -> None:
    x = halves(2, 100, 4096)
    segment = segment_of([x], chain(swapped(x), "neg"))
    assert shape_of(segment, busy=1_000_000) == "squares of 32 x 32"


def test_a_mask_is_turned_as_what_it_is_of() -> None:
    """Though 12 of its own elements are less than a vector, which one thread could store."""
    x = halves(3, 12, 4096)
    mask = call("lt", x, chain(x, "abs"))
    segment = segment_of([x], swapped(mask), swapped(chain(x, "neg")))
    assert shape_of(segment) == "slabs of 12 x 320"


def test_few_elements_of_a_short_axis_are_not_turned() -> None:
    x = halves(3, 12, 4096)
    assert class_of(segment_of([x], chain(swapped(x), "neg")), busy=1_000_000).tile is None


@pytest.mark.parametrize("extents", [(5, 4), (13, 4), (7, 3, 4), (4, 13), (5, 8)])
def test_a_single_vector_is_no_slab(extents: tuple[int, ...]) -> None:
    """As kernels for all sizes had it, in which no size says that elements are few."""
    x = floats(*extents)
    segment = segment_of([x], chain(swapped(x), "neg"))
    for lanes in (4, 8):
        found = map.schedule(segment, MapParameters(busy=1, lanes=lanes))
        assert all(a.size > 1 for c in found.classes if c.tile is not None for a in c.axes)
        emit(lower(found, strict=False))


def test_rows_that_lie_apart_are_no_slab() -> None:
    x = halves(2, 100, 4096)
    made = chain(swapped(x), "neg")
    apart = Layout((2, 4096, 100), (4096 * 104, 104, 1))
    assert shape_of(segment_of([x], made, lies={made: apart})) == "squares of 64 x 64"


def test_images_that_only_one_side_has_are_not_merged() -> None:
    """Else a row would be read at a place that its image, too, decides."""
    x, y = halves(600, 49, 16), halves(16, 49)
    added = call("add", x, expand(unsqueeze(permute(y, 1, 0), 0), 600, 49, 16))
    for found in map.schedule(segment_of([x, y], swapped(added)), MapParameters()).classes:
        assert len(found.axes) == 3


@pytest.mark.parametrize("extents", [(3, 31, 64), (7, 16, 49), (2, 20, 72), (5, 49, 24)])
def test_turned_accesses_reach_the_elements_that_threads_compute_with(
    extents: tuple[int, ...],
) -> None:
    x = floats(*extents)
    made = chain(swapped(x), "neg")
    found = class_of(segment_of([x], made))
    tile, layouts = found.tile, found.group.segment.layouts
    assert tile is not None
    assert "slabs" in str(tile)
    ((tv, index),) = found.group.needs[0].leaves
    offsets = offset_of(layouts[tv], index), offset_of(layouts[made], found.group.nests[0].index)
    (offset,) = (o for o in offsets if tile.turned(o) is not None)
    turned = tile.turned(offset)
    assert turned is not None
    assert tile.lane is not None
    outer = [a for a in found.axes if a not in (tile.down, tile.across)]
    walked = {evaluate(offset, p) for p in points([*outer, tile.down, tile.across, tile.lane])}
    starts = [evaluate(turned, p) for p in points([*outer, tile.turned_down, tile.turned_across])]
    assert sorted(s + lane for s in starts for lane in range(tile.lanes)) == sorted(walked)


@pytest.mark.parametrize("extent", [16, 31, 49, 96, 100, 250])
@pytest.mark.parametrize(("itemsize", "lanes"), [(1, 8), (2, 8), (4, 4)])
def test_threads_side_by_side_meet_no_bank_twice(extent: int, itemsize: int, lanes: int) -> None:
    vectors, run = 8, pitch(axis(extent)) * lanes
    for lane in range(lanes):
        places = product(range(WARP // vectors), range(vectors))
        words = {(v * run + lane * extent + row) * itemsize // 4 for row, v in places}
        assert len({word % 32 for word in words}) == len(words)


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device", "widest_host")
@pytest.mark.parametrize("dtype", [torch.int8, torch.bfloat16], ids=str)
def test_what_images_have_one_of_per_channel_is_no_plane(dtype: torch.dtype) -> None:
    x, y = whole(8, 48, 1517, dtype=dtype), whole(8, 1517, 48, dtype=dtype)
    a, b, c = like(x, y, s := whole(8, 48))
    both = call("add", permute(a, 0, 2, 1), b)
    told = call("ne", expand(unsqueeze(c, 1), 8, 1517, 48), sc.constant(1))
    check(fusion([a, b, c], call("where", told, both, sc.constant(3))), x, y, s)
