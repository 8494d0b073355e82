"""Which axes a class is walked in squares over, and where turned accesses begin."""

from __future__ import annotations

import pytest

from tests.programs import chain, expand, permute, reshape, unsqueeze
from tests.schedule.segments import floats, halves, points, segment_of
from thunder_fuser.analysis.digits import evaluate
from thunder_fuser.analysis.layout import offset_of
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule import map
from thunder_fuser.schedule.parameters import NEVER, MapParameters
from thunder_fuser.schedule.vectorize import VectorClass
from thunder_fuser.segment.segment import Segment

SQUARES = MapParameters(busy=NEVER)  # whatever slabs there are


def class_of(segment: Segment) -> VectorClass:
    (found,) = map.schedule(segment, SQUARES).classes
    return found


def swapped(x: TensorView) -> TensorView:
    return permute(x, 1, 0)


def shape_of(segment: Segment) -> tuple[int, int] | None:
    """Side and lanes of the squares."""
    tile = class_of(segment).tile
    return None if tile is None else (tile.side, tile.lanes)


def test_a_transposed_load_is_turned() -> None:
    x, y = halves(192, 128), halves(128, 192)
    segment = segment_of([x, y], call("add", permute(x, 1, 0), y))
    assert shape_of(segment) == (64, 8)
    assert str(map.schedule(segment, MapParameters())).splitlines()[1:] == [
        "  class over i0{128}, i1{24} and lane{8}, in squares of 64 x 64",
        "    T3[i0, 8*i1 + lane]",
    ]


def test_values_are_computed_along_the_axis_that_turns_fewest_bytes() -> None:
    """One result of two lies like both inputs: the other one is turned, in whatever order."""
    x, y = halves(192, 128), halves(192, 128)
    along = call("mul", x, y)
    for outputs in ([along, permute(chain(along, "exp"), 1, 0)], [permute(along, 1, 0)]):
        segment = segment_of([x, y], *outputs)
        tile = class_of(segment).tile
        assert tile is not None
        assert (tile.down.size, tile.across.size) == (192, 128 // 8)


def test_a_load_that_two_stores_share_is_turned_once() -> None:
    """Less than they are: a mask beside the values of as many elements."""
    x = halves(192, 128)
    mask = call("lt", x, chain(x, "abs"))
    tile = class_of(segment_of([x], permute(mask, 1, 0), permute(chain(x, "neg"), 1, 0))).tile
    assert tile is not None
    assert (tile.down.size, tile.across.size) == (128, 192 // 8)


@pytest.mark.parametrize("extents", [(100, 4096), (4096, 100)])
def test_blocks_walk_the_axis_of_few_squares_inside(extents: tuple[int, int]) -> None:
    """Rows of 100 elements end inside a line, of which no block may come much later to the rest."""
    x = halves(2, *extents)
    found = class_of(segment_of([x], chain(permute(x, 0, 2, 1), "neg")))
    assert found.axes[-1].size in (100, 100 // found.lanes)


@pytest.mark.parametrize(
    ("extents", "expected"),
    [
        ((192, 128), (64, 8)),
        ((192, 132), (32, 4)),
        ((194, 132), (32, 2)),
        ((193, 128), (32, 1)),
        ((16, 16), (64, 8)),
        ((192, 15), None),
        ((8, 128), None),
    ],
)
def test_lanes_divide_both_axes(extents: tuple[int, int], expected: tuple[int, int] | None) -> None:
    x = halves(*extents)
    assert shape_of(segment_of([x], call("neg", permute(x, 1, 0)))) == expected


@pytest.mark.parametrize(
    ("extents", "expected"),
    [
        ((1025, 336), (64, 8, 8)),  # sheared, for what is stored has the fewer ones
        ((336, 1025), (64, 8, 8)),  # loaded late
        ((338, 1028), (64, 4, 8)),
        ((1025, 337), (32, 1, 1)),
    ],
)
def test_what_is_turned_may_have_fewer_lanes(
    extents: tuple[int, int], expected: tuple[int, int, int]
) -> None:
    """Else all accesses to rows of 336 were of one element, because columns have 1025."""
    x = halves(*extents)
    (found,) = map.schedule(segment_of([x], chain(swapped(x), "neg")), MapParameters()).classes
    assert found.tile is not None
    assert (found.tile.side, found.tile.lanes, found.tile.run) == expected


def test_the_side_with_fewer_lanes_is_turned_only_if_it_is_no_larger() -> None:
    """A square of the lanes of both where two tensors lie along odd rows, and one does not."""
    x, y = halves(336, 1025), halves(1025, 336)
    added = call("add", call("mul", x, chain(x, "exp")), swapped(y))
    segment = segment_of([x, y], added)
    (found,) = map.schedule(segment, MapParameters()).classes
    assert found.tile is not None
    assert (found.tile.lanes, found.tile.run, found.tile.down.size) == (1, 1, 336)


def test_four_byte_elements_make_squares_of_128_bytes_too() -> None:
    x = floats(96, 64)
    assert shape_of(segment_of([x], call("neg", permute(x, 1, 0)))) == (32, 4)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: chain(x, "neg"),
        lambda x: chain(permute(reshape(x, 32, 4, 96), 1, 0, 2), "neg"),  # whole rows change places
        lambda x: expand(unsqueeze(chain(x, "neg"), 2), 128, 96, 3),
    ],
    ids=["pointwise", "rows", "expanded"],
)
def test_nothing_is_turned_where_all_lies_alike(program: object) -> None:
    assert callable(program)
    x = halves(128, 96)
    for found in map.schedule(segment_of([x], program(x)), MapParameters()).classes:
        assert found.tile is None


def test_a_small_operand_is_not_turned() -> None:
    """Its lines stay in the cache."""
    x, y = halves(8, 64, 64), halves(64, 64)
    segment = segment_of([x, y], call("add", x, expand(unsqueeze(permute(y, 1, 0), 0), 8, 64, 64)))
    assert shape_of(segment) is None


def test_an_axis_that_an_offset_divides_is_not_walked_in_squares() -> None:
    """Columns of 63 become rows of 72: an offset divides by both."""
    x = halves(63, 80)
    turned = chain(reshape(permute(x, 1, 0), 70, 72), "neg")
    for found in map.schedule(segment_of([x], turned), MapParameters()).classes:
        assert found.tile is None


@pytest.mark.parametrize(("count", "fits"), [(6, True), (7, False)])
def test_squares_fit_the_shared_memory_of_a_block(count: int, fits: bool) -> None:
    """Of 8 KiB each, as many are needed whichever way values are computed."""
    inputs = [halves(128, 64) for _ in range(count)] + [halves(64, 128) for _ in range(count)]
    added = inputs[-1]
    for k, x in enumerate(inputs[:-1]):
        added = call("add", added, permute(x, 1, 0) if k < count else x)
    assert (shape_of(segment_of(inputs, added)) is not None) == fits


@pytest.mark.parametrize("extents", [(64, 32), (32, 33), (17, 19), (325, 327), (332, 326)])
def test_turned_accesses_reach_the_elements_that_threads_compute_with(
    extents: tuple[int, int],
) -> None:
    x = floats(3, *extents)
    made = chain(permute(x, 0, 2, 1), "neg")
    parameters = MapParameters(busy=3 * 321 * 326)
    (found,) = map.schedule(segment_of([x], made), parameters).classes
    tile = found.tile
    assert tile is not None
    layouts, (needs,) = found.group.segment.layouts, found.group.needs
    ((tv, index),) = needs.leaves
    offset = offset_of(layouts[tv], index)
    turned = tile.turned(offset)
    assert turned is not None
    assert tile.turned(offset_of(layouts[made], found.group.nests[0].index)) is None
    outer = [a for a in found.axes if a not in (tile.down, tile.across)]
    lanes = [] if tile.lane is None else [tile.lane]
    walked = {evaluate(offset, at) for at in points([*outer, tile.down, tile.across, *lanes])}
    starts = [evaluate(turned, at) for at in points([*outer, tile.turned_down, tile.turned_across])]
    assert sorted(s + k for s in starts for k in range(tile.run)) == sorted(walked)
