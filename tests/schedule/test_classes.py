"""Which nests one thread runs together, and which stores it repeats."""

from __future__ import annotations

from math import prod
from textwrap import dedent

import pytest

from tests.programs import (
    H200,
    cat,
    chain,
    expand,
    full,
    pad,
    permute,
    piece,
    reshape,
    total,
    unsqueeze,
)
from tests.schedule.segments import classes_of, floats, halves, segment_of
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule import map
from thunder_fuser.schedule.parameters import NEAR, MapParameters, map_parameters
from thunder_fuser.segment.segment import Segment


def groups(segment: Segment, owned: int = 8, busy: int = 1) -> list[list[str]]:
    """The names of what each class stores, times the copies that one thread stores."""
    names = segment.names
    return [
        [f"{names[n.store.value]} x {n.instances}" for n in group.nests]
        for group in classes_of(segment, owned, busy)
    ]


def test_stores_that_read_the_same_elements_share_a_class() -> None:
    x = floats(40, 64)
    assert groups(segment_of([x], chain(x, "neg"), chain(x, "exp"))) == [["T1 x 1", "T2 x 1"]]


def test_stores_that_read_nothing_in_common_do_not() -> None:
    x, y = floats(40, 64), floats(40, 64)
    assert groups(segment_of([x, y], chain(x, "neg"), chain(y, "exp"))) == [["T1 x 1"], ["T3 x 1"]]


def test_axes_pair_by_their_strides_in_what_both_read_not_by_their_place() -> None:
    x = floats(40, 40)
    segment = segment_of([x], chain(x, "neg"), chain(permute(x, 1, 0), "exp"))
    first, second = classes_of(segment)[0].nests
    assert second.index == tuple(reversed(first.index))


def test_a_piece_of_a_store_keeps_its_axes_where_another_has_one_of_them() -> None:
    """Three copies of a row, between zeros: both are pieces of one store, cut along one axis."""
    x = floats(16)
    row = reshape(cat(x, dim=0), 1, 1, 2, 4, 2)
    bordered = pad(
        reshape(cat(row, row, row, dim=1), 1, 4, 2, 1, 6), [3, 0, 2, 0, 1, 0, 3, 1, 0, 0]
    )
    schedule = map.schedule(segment_of([x], bordered), MapParameters(busy=1, near=512, rests=True))
    nests = [nest for c in schedule.classes for nest in c.group.nests]
    assert sum(prod(a.size for a in {*nest.axes}) for nest in nests) == prod(bordered.shape)


def test_equal_extents_at_other_strides_do_not_pair() -> None:
    """Rows 2k of x beside rows k of it: one axis of 20 on both sides, of strides 64 and 32."""
    x = floats(40, 32)
    even, low = piece(x, 0, 0, 40, 2), piece(x, 0, 0, 20)
    segment = segment_of([x], chain(even, "neg"), chain(low, "exp"))
    assert len(groups(segment, owned=8)) == 2


def test_a_short_axis_left_over_is_unrolled() -> None:
    """q and k of a grouped attention: k has one head where q has 4."""
    x = floats(10, 5, 64)
    q, k = piece(x, 1, 0, 4), piece(x, 1, 4, 5)
    segment = segment_of([x], chain(q, "neg"), chain(k, "exp"))
    assert groups(segment, owned=4) == [["T2 x 4", "T4 x 1"]]
    assert groups(segment, owned=3) == [["T2 x 1"], ["T4 x 1"]]


@pytest.mark.parametrize(("rows", "owned", "count"), [(8, 8, 1), (9, 8, 2), (8, 4, 2)])
def test_rows_far_apart_are_stored_by_the_thread_that_sums_them(
    rows: int, owned: int, count: int
) -> None:
    """It has loaded them anyway, unless it sums some of them only."""
    x = floats(rows, NEAR)
    segment = segment_of([x], chain(x, "neg"), chain(total(x, 0), "exp"))
    assert len(groups(segment, owned)) == count
    some = total(piece(x, 0, 0, 4), 0)
    assert len(groups(segment_of([x], chain(x, "neg"), chain(some, "exp")), owned)) == 2


@pytest.mark.parametrize(("weights", "count"), [(1, 1), (16, 2)])
def test_rows_far_apart_that_need_some_more_are_stored_there(weights: int, count: int) -> None:
    """As the gradient of a norm of few rows needs its weight."""
    x, scale, *others = floats(8, NEAR), floats(8), *(floats(NEAR) for _ in range(weights))
    scaled = call("mul", x, expand(unsqueeze(scale, 1), 8, NEAR))
    for other in others:
        scaled = call("mul", scaled, expand(unsqueeze(other, 0), 8, NEAR))
    assert len(groups(segment_of([x, scale, *others], scaled, total(x, 0)))) == count


def test_sharing_stops_where_too_few_elements_would_run_in_parallel() -> None:
    x = floats(10, 5, 64)
    segment = segment_of([x], chain(piece(x, 1, 0, 4), "neg"), chain(piece(x, 1, 4, 5), "exp"))
    assert len(groups(segment, busy=640)) == 1
    assert len(groups(segment, busy=641)) == 2


def test_an_axis_is_split_to_pair_with_a_shorter_one_that_fills_its_lines() -> None:
    """b is half of every row of a; 32 floats are a cache line, 16 are not."""
    for size, expected in [(64, [["T1 x 2", "T3 x 1"]]), (32, [["T1 x 1"], ["T3 x 1"]])]:
        x = floats(40, size)
        segment = segment_of([x], chain(x, "neg"), chain(piece(x, 1, 0, size // 2), "exp"))
        assert groups(segment) == expected


def repeated(x: TensorView, times: int) -> Segment:
    wide = expand(unsqueeze(x, 1), x.shape[0], times, *x.shape[1:])
    return segment_of([x], chain(wide, "neg"))


def test_a_value_that_is_stored_again_along_an_expanded_axis_is_computed_once() -> None:
    assert groups(repeated(floats(40, 64), 3)) == [["T3 x 3"]]


@pytest.mark.parametrize(
    ("size", "times", "owned", "busy", "copies"),
    [
        (64, 8, 8, 1, 8),
        (64, 9, 8, 1, 1),  # more than a thread owns
        (64, 4, 8, 40 * 64, 4),
        (64, 4, 8, 40 * 64 + 1, 1),  # too few threads would be left
        (NEAR // 4, 4, 8, 1, 4),
        (NEAR // 4 + 1, 4, 8, 1, 1),  # the copies lie too far apart
    ],
)
def test_copies_are_stored_by_one_thread_while_few_near_and_busy_enough(
    size: int, times: int, owned: int, busy: int, copies: int
) -> None:
    assert groups(repeated(floats(40, size), times), owned, busy) == [[f"T3 x {copies}"]]


def test_nothing_is_repeated_where_nothing_is_read() -> None:
    from_nothing = full(1.5, 4, 64)
    assert groups(segment_of([], from_nothing)) == [["T0 x 1"]]


def test_an_axis_that_is_read_as_it_is_written_is_not_taken_for_a_repeated_one() -> None:
    """Load and store have one offset here; four rows in a thread would cost half the lanes."""
    x = halves(1 << 18, 4, 64)
    schedule = map.schedule(segment_of([x], chain(x, "neg")), map_parameters(H200)[0])
    assert str(schedule) == dedent("""\
        map, blocks of 128
          class over i0{8388608} and lane{8}, streaming
            T1[(i0/32), ((i0/8)%4), 8*(i0%8) + lane]""")


def test_an_unrolled_pairing_shares_its_loads_with_a_plain_store() -> None:
    x = halves(40, 128)
    turned = cat(chain(piece(x, 1, 64, 128), "neg"), piece(x, 1, 0, 64))
    schedule = map.schedule(segment_of([x], turned, chain(x, "exp")), MapParameters())
    assert str(schedule) == dedent("""\
        map, blocks of 128
          class over i0{40}, i1{16} and lane{4}
            T4[i0, 64*u0 + 4*i1 + lane], u0{2} in one thread
            T5[i0, 64*u0 + 4*i1 + lane], u0{2} in one thread""")


@pytest.mark.parametrize(("pieces", "copies"), [(2, 2), (4, 4), (8, 1)])
def test_short_pieces_that_are_stored_by_turns_are_copies_in_one_thread(
    pieces: int, copies: int
) -> None:
    """Of 16-bit elements eight are a vector that is stored at once."""
    x = halves(pieces, 640)
    segment = segment_of([x], chain(permute(x, 1, 0), "neg"))
    assert groups(segment) == [[f"T2 x {copies}"]]


def test_what_is_read_as_it_is_stored_is_no_copy() -> None:
    x, y = halves(640, 2), halves(2, 640)
    segment = segment_of([x, y], call("add", permute(y, 1, 0), x))
    assert groups(segment) == [["T3 x 1"]]


def pooled(*shape: int, dims: tuple[int, ...]) -> Segment:
    """What is left of a plane, without the largest of each pool."""
    x = halves(*shape)
    kept = [1 if d in dims else size for d, size in enumerate(shape)]
    most = expand(reshape(call("max", x, dims=dims), *kept), *shape)
    return segment_of([x], call("sub", x, most))


@pytest.mark.parametrize(
    ("shape", "dims", "copies"),
    [
        ((30, 2, 28, 2), (1, 3), 4),
        ((30, 3, 40), (1,), 3),
        ((400, 8), (1,), 8),  # one access holds what a thread stores
        ((400, 9), (1,), 1),
        ((30, 16, 40), (1,), 1),  # too many to load
    ],
)
def test_values_that_need_what_all_of_them_load_are_one_threads(
    shape: tuple[int, ...], dims: tuple[int, ...], copies: int
) -> None:
    ((made,),) = groups(pooled(*shape, dims=dims))
    assert made.endswith(f"x {copies}")


def test_places_of_a_pool_stay_apart_where_few_threads_would_be_left() -> None:
    segment = pooled(30, 2, 28, 2, dims=(1, 3))
    assert [[made[-3:] for made in group] for group in groups(segment, busy=900)] == [["x 1"]]


def test_a_vector_has_as_many_places_as_one_access_stores() -> None:
    """Of two each way, in lanes of windows."""
    made = map.schedule(pooled(30, 2, 28, 2, dims=(1, 3)), MapParameters())
    assert [c.lanes for c in made.classes] == [4]
