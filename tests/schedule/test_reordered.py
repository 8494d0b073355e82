"""Which places lie in two orders, how many of them are the same ones, and which slabs have them."""

from __future__ import annotations

import pytest

from tests.programs import chain, images, patches, permute
from tests.schedule.segments import floats, halves, points, segment_of
from thunder_fuser.analysis.digits import evaluate
from thunder_fuser.analysis.layout import offset_of
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule import map
from thunder_fuser.schedule.parameters import MapParameters
from thunder_fuser.schedule.slabs import SlabTile
from thunder_fuser.schedule.vectorize import VectorClass


def class_of(x: TensorView, made: TensorView) -> VectorClass:
    (found,) = map.schedule(segment_of([x], made), MapParameters(busy=1)).classes
    return found


def slab_of(x: TensorView, made: TensorView) -> SlabTile:
    tile = class_of(x, made).tile
    assert isinstance(tile, SlabTile)
    return tile


def test_a_block_has_all_places_that_both_sides_have_side_by_side() -> None:
    x = halves(3, 150, 32, 32)
    made = map.schedule(segment_of([x], chain(patches(x, 2, 2), "neg")), MapParameters())
    assert str(made).splitlines()[1:] == [
        "  class over i0{3}, i1{128}, i2{150} and lane{8}, in slabs of 150 x 64, in two orders",
        "    T4[i0, 16*(i1/8) + 4*(i1%4) + (lane/2), 300*((i1/4)%2) + 150*(lane%2) + i2]",
    ]


@pytest.mark.parametrize(
    ("extents", "sides", "places"),
    [
        ((2, 17, 16, 32), (2, 2), 192),  # 64 of two rows, three times
        ((2, 150, 16, 32), (2, 2), 64),
        ((2, 150, 16, 56), (2, 2), 112),
        ((2, 17, 16, 32), (4, 2), 128),  # of four
        ((2, 17, 70, 8), (2, 2), 240),  # the last block has 80
    ],
)
@pytest.mark.parametrize("is_back", [False, True])
def test_a_block_has_whole_periods(
    extents: tuple[int, ...], sides: tuple[int, int], places: int, is_back: bool
) -> None:
    x = halves(*extents)
    made = patches(x, *sides)
    if is_back:
        x = halves(*made.shape)
        made = images(x, *sides, *extents[2:])
    found = slab_of(x, chain(made, "neg"))
    assert (found.order is not None, found.lanes, found.run, found.side) == (True, 8, 8, places)


def test_squares_stay_where_their_vectors_are_as_wide() -> None:
    x = halves(3, 96, 32, 32)
    assert str(class_of(x, chain(patches(x, 2, 2), "neg")).tile) == "squares of 64 x 64"


def test_one_order_is_none_of_two() -> None:
    x = halves(3, 31, 32, 32)
    assert slab_of(x, chain(permute(x, 0, 2, 3, 1), "neg")).order is None


def test_few_channels_meet_too_few_banks() -> None:
    x = halves(3, 3, 64, 64)
    assert slab_of(x, chain(patches(x, 2, 2), "neg")).order is None


@pytest.mark.parametrize(
    ("extents", "sides"),
    [((3, 17, 6, 8), (2, 2)), ((2, 29, 9, 12), (3, 3)), ((1, 18, 8, 8), (4, 2))],
)
def test_turned_accesses_reach_the_elements_that_threads_compute_with(
    extents: tuple[int, ...], sides: tuple[int, int]
) -> None:
    x = floats(*extents)
    made = chain(patches(x, *sides), "neg")
    found = class_of(x, made)
    tile, layouts = found.tile, found.group.segment.layouts
    assert isinstance(tile, SlabTile)
    assert tile.order is not None
    assert tile.lane is not None
    offset = offset_of(layouts[made], found.group.nests[0].index)
    turned = tile.turned(offset)
    assert turned is not None
    outer = [a for a in found.axes if a not in (tile.down, tile.across)]
    for place in points([*outer, tile.down, tile.across, tile.lane]):
        first = place[tile.across] // tile.vectors * tile.side
        order = evaluate(tile.order, place)
        assert 0 <= order < tile.side
        at = {tile.turned_across: (first + order) // tile.run, tile.turned_down: 0}
        run = evaluate(turned, {**place, **at})
        element = (first + order) % tile.run * tile.down.size + place[tile.down]
        assert evaluate(offset, place) == run + element
