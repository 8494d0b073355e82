"""Stores that boxes would do in narrow accesses, as one axis of vectors, where that is cheaper."""

from __future__ import annotations

from math import prod

import pytest

from tests.programs import cat, chain, doubled, flip, pad, permute, piece, rolled
from tests.schedule.segments import classes, floats, halves, integers, segment_of
from thunder_fuser.analysis.digits import loads_in
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule import map
from thunder_fuser.schedule.flatten import without_carries
from thunder_fuser.schedule.parameters import NEVER, MapParameters
from thunder_fuser.segment.segment import Segment


def is_flat(segment: Segment, parameters: MapParameters | None = None) -> bool:
    """True where one axis has all vectors of the store."""
    first = map.schedule(segment, parameters or MapParameters()).classes[0]
    left = prod(segment.stores[0].value.shape) - first.threads * first.lanes
    return len(first.axes) == 1 and left < first.lanes


def of(x: TensorView, made: TensorView, lies: Layout | None = None) -> Segment:
    return segment_of([x], made, lies={x: lies} if lies else None)


def test_a_padded_plane_is_walked_in_vectors_of_sixteen_bytes() -> None:
    x = halves(6, 28, 28)
    assert classes(of(x, pad(x, [1, 1, 1, 1]))) == (
        "class over i0{675} and lane{8}\n"
        "  T1[((8*i0 + lane)/900), (((8*i0 + lane)/30)%30), ((8*i0 + lane)%30)]"
    )


def test_what_vectors_leave_over_is_a_class_of_its_own() -> None:
    x = halves(3, 28, 28)
    assert classes(of(x, pad(x, [1, 0, 1, 0]))) == (
        "class over i0{315} and lane{8}\n"
        "  T1[((8*i0 + lane)/841), (((8*i0 + lane)/29)%29), ((8*i0 + lane)%29)]\n"
        "class over i0{3}\n"
        "  T1[2, 28, 26 + i0]"
    )


def test_axes_lie_in_the_order_of_memory() -> None:
    x = halves(40, 28, 28)
    made = permute(pad(x, [1, 1, 1, 1]), 1, 0, 2)
    assert is_flat(segment_of([x], made))


@pytest.mark.parametrize(
    ("dtype", "columns", "flat"),
    [
        (DataType.BFloat16, 28, True),
        (DataType.BFloat16, 2048, True),
        (DataType.Float, 28, True),
        (DataType.Int8, 28, True),
        (DataType.Double, 28, False),  # 8 bytes at a time as boxes
    ],
    ids=str,
)
def test_a_pad_is_flat_where_boxes_are_narrow(dtype: DataType, columns: int, flat: bool) -> None:
    x = tensor(dtype, 64, columns)
    assert is_flat(of(x, pad(x, [1, 1], 2.0))) == flat


@pytest.mark.parametrize("widths", [[8, 8], [4, 4], [0, 0, 3, 5], [16, 0]], ids=str)
def test_wide_boxes_stay(widths: list[int]) -> None:
    x = halves(64, 32)
    assert not is_flat(of(x, pad(x, widths, 2.0)))


def test_a_few_narrow_boxes_stay() -> None:
    x = halves(64, 4096)
    assert not is_flat(of(x, rolled(x, 4093, 1)))
    y = halves(64, 56)
    assert is_flat(of(y, rolled(y, 53, 1)))


def test_a_cat_of_odd_rows_is_flat() -> None:
    a, b = halves(64, 257), halves(64, 2)
    assert is_flat(segment_of([a, b], cat(a, b)))


def test_short_gathered_rows_of_odd_length_are_flat() -> None:
    weight, chosen = halves(50, 65), integers(64)
    rows = call("index_select", weight, chosen, dim=0)
    assert is_flat(segment_of([weight, chosen], rows))


def test_vectors_in_one_long_gathered_row_need_its_index_once() -> None:
    weight, chosen = halves(50, 4097), integers(64)
    rows = flip(call("index_select", weight, chosen, dim=0), 1)
    (first, *_) = map.schedule(segment_of([weight, chosen], rows), MapParameters()).classes
    found = without_carries(first)
    assert found is not None
    _, straight = found
    assert all(straight.is_uniform(place) for place in loads_in(straight.group.forms))


def test_elements_that_read_many_others_stay_in_boxes() -> None:
    """As in the gradient of a SwiGLU, or in a rotary embedding."""
    x, cos, sin = halves(64, 66), halves(64, 66), halves(64, 66)
    turned = cat(chain(piece(x, 1, 33, 66), "neg"), piece(x, 1, 0, 33))
    made = call("add", call("mul", flip(x, 1), flip(cos, 1)), call("mul", turned, flip(sin, 1)))
    assert not is_flat(segment_of([x, cos, sin], made))


def test_copies_that_share_loads_stay() -> None:
    """As in the gradient of a SwiGLU, of which a thread stores both halves."""
    x, g = halves(64, 66), halves(64, 33)
    gate, up = piece(x, 1, 0, 33), piece(x, 1, 33, 66)
    made = cat(call("mul", g, up), call("mul", g, chain(gate, "neg")))
    assert not is_flat(segment_of([x, g], made))


def test_odd_rows_stored_twice_are_flat_and_have_both_copies_of_an_element() -> None:
    x = halves(3, 37, 40), halves(3, 37, 41)
    assert not is_flat(of(x[0], doubled(x[0])))  # vectors of whole lanes as they are
    assert classes(of(x[1], doubled(x[1]))) == (
        "class over i0{2275} and lane{4}\n"
        "  T4[((4*i0 + lane)/3034), (((4*i0 + lane)/41)%74), 2*((4*i0 + lane)%41) + u0], "
        "u0{2} in one thread\n"
        "class over i0{2}\n"
        "  T4[2, 73, 78 + 2*i0 + u0], u0{2} in one thread"
    )


def test_what_is_read_far_apart_stays() -> None:
    x = halves(16, 7, 3, 64)
    assert not is_flat(of(x, permute(x, 0, 3, 1, 2)))


def test_a_target_that_does_not_begin_with_a_vector_stays() -> None:
    x = halves(64, 28)
    made = pad(x, [1, 1])
    lies = Layout(made.shape, (30, 1), 2)
    assert not is_flat(segment_of([x], made, lies={made: lies}))


def test_a_target_that_does_not_lie_dense_stays() -> None:
    x = halves(64, 28)
    made = pad(x, [1, 1])
    assert not is_flat(segment_of([x], made, lies={made: Layout(made.shape, (32, 1))}))


def test_an_argument_that_is_written_stays() -> None:
    x, y = halves(64, 28), halves(64, 30)
    assert not is_flat(segment_of([x, y], writes=[(pad(x, [1, 1]), y)]))


def test_a_small_target_stays() -> None:
    x = floats(64, 28)
    assert not is_flat(of(x, pad(x, [1, 1])), MapParameters(busy=NEVER))


def test_kernels_for_many_lengths_keep_boxes() -> None:
    x = floats(64, 28)
    assert not is_flat(of(x, pad(x, [1, 1])), MapParameters(rests=True))


def test_stores_that_share_their_loads_stay_together() -> None:
    x = halves(64, 31)
    made = pad(x, [1, 1])
    segment = segment_of([x], made, chain(made, "neg"))
    assert sum(len(c.group.nests) for c in map.schedule(segment, MapParameters()).classes) > 2
