"""Rows of odd length as one axis of vectors, where everything large lies dense."""

from __future__ import annotations

import pytest

from tests.programs import cat, chain, expand, flip, piece, reshape, unsqueeze
from tests.schedule.segments import classes, floats, halves, integers, segment_of
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule import map
from thunder_fuser.schedule.flatten import LONG, without_carries
from thunder_fuser.schedule.parameters import NEVER, MapParameters
from thunder_fuser.segment.segment import Segment

ROWS = 64
SMALL = MapParameters(
    busy=NEVER
)  # too small for flat stores, which are told in a file of their own


def biased(x: TensorView, lies: Layout | None = None) -> Segment:
    bias = tensor(x.dtype, x.shape[-1])
    return segment_of([x, bias], call("add", x, bias), lies={x: lies} if lies else None)


def is_flat(segment: Segment) -> bool:
    """True where the first class has one axis, but for lanes."""
    return len(map.schedule(segment, SMALL).classes[0].axes) == 1


def test_a_plane_of_odd_rows_is_walked_in_vectors_of_sixteen_bytes() -> None:
    assert classes(biased(halves(ROWS, 4097))) == (
        f"class over i0{{{ROWS * 4097 // 8}}} and lane{{8}}\n"
        "  T2[((8*i0 + lane)/4097), ((8*i0 + lane)%4097)]"
    )


def test_what_vectors_leave_over_is_a_class_of_its_own() -> None:
    assert classes(biased(floats(5, 1001))) == (
        "class over i0{1251} and lane{4}\n"
        "  T2[((4*i0 + lane)/1001), ((4*i0 + lane)%1001)]\n"
        "class over one point\n"
        "  T2[4, 1000]"
    )


@pytest.mark.parametrize("columns", [1, 2, 3, 5, 7, 257])
def test_tiny_rows_are_flat_too(columns: int) -> None:
    assert is_flat(biased(halves(1000, columns)))


@pytest.mark.parametrize(
    ("dtype", "columns", "flat"),
    [
        (DataType.BFloat16, 4096, False),
        (DataType.BFloat16, 4100, False),  # accesses of 8 bytes
        (DataType.BFloat16, 4098, True),
        (DataType.Float, 4098, False),
        (DataType.Float, 4097, True),
        (DataType.Double, 4097, False),
        (DataType.Int8, 4100, True),
    ],
    ids=str,
)
def test_rows_stay_where_accesses_are_wide(dtype: DataType, columns: int, flat: bool) -> None:
    assert is_flat(biased(tensor(dtype, ROWS, columns))) == flat


@pytest.mark.parametrize(
    "layout",
    [
        Layout((ROWS, 257), (300, 1)),
        Layout((ROWS, 257), (1, ROWS)),
        Layout((ROWS, 257), (257, 1), 2),
    ],
    ids=["rows apart", "columns first", "misaligned"],
)
def test_rows_stay_where_the_plane_is_no_row_of_vectors(layout: Layout) -> None:
    assert not is_flat(biased(halves(ROWS, 257), layout))


def test_an_expanded_input_that_is_stored_is_read_at_its_column() -> None:
    """Only the store is large."""
    x = halves(257)
    segment = segment_of([x], expand(unsqueeze(x, 0), ROWS, 257))
    assert is_flat(segment)


def test_a_piece_of_wider_rows_stays() -> None:
    x, bias = halves(ROWS, 300), halves(257)
    assert not is_flat(segment_of([x, bias], call("add", piece(x, 1, 0, 257), bias)))


def test_rows_that_are_walked_backward_stay() -> None:
    x, bias = halves(ROWS, 257), halves(257)
    assert not is_flat(segment_of([x, bias], call("add", flip(x, 1), bias)))


def test_rows_that_a_window_cuts_stay() -> None:
    x, bias = halves(ROWS, 257), halves(257)
    biased = call("add", x, bias)
    assert not is_flat(segment_of([x, bias], cat(biased, x)))


def test_rows_that_an_index_chooses_stay() -> None:
    weight, chosen, bias = halves(50, 257), integers(ROWS), halves(257)
    rows = call("index_select", weight, chosen, dim=0)
    assert not is_flat(segment_of([weight, chosen, bias], call("add", rows, bias)))


def test_only_as_many_axes_are_merged_as_vectors_take() -> None:
    """8 rows of odd length are whole vectors; what lies apart outside of them is no matter."""
    x, y, bias = halves(3, 8, 257), halves(3, 8, 257), halves(257)
    apart = Layout((3, 8, 257), (4096, 257, 1))
    segment = segment_of([x, y, bias], call("add", call("add", x, bias), y), lies={y: apart})
    assert classes(segment).splitlines()[0] == "class over i0{3}, i1{257} and lane{8}"


def test_kernels_for_many_lengths_keep_rows() -> None:
    general = MapParameters(rests=True)
    made = map.schedule(biased(halves(ROWS, 257)), general)
    assert all(len(c.axes) == 2 for c in made.classes[:1])


def inside(segment: Segment) -> str | None:
    """The window of vectors that lie in one row, and the index there."""
    (first, *_) = map.schedule(segment, MapParameters()).classes
    found = without_carries(first)
    if found is None:
        return None
    window, straight = found
    made = map.MapSchedule(segment, (straight,), MapParameters())
    return f"below {window.extent}: {str(made).splitlines()[-1].strip()}"


def test_vectors_of_long_rows_that_lie_in_one_row_are_told_apart() -> None:
    assert inside(biased(halves(ROWS, 4097))) == (
        "below 4090: T2[((8*i0)/4097), ((8*i0)%4097) + lane]"
    )


def test_short_rows_have_a_vector_in_two_rows_in_most_warps() -> None:
    length = LONG * 8
    assert inside(biased(halves(ROWS, length - 1))) is None
    assert inside(biased(halves(ROWS, length + 1))) is not None


def test_rows_that_are_no_merged_axes_have_no_carry() -> None:
    assert inside(biased(halves(ROWS, 4096))) is None
    assert inside(segment_of([x := halves(4097)], chain(x, "neg"))) is None


@pytest.mark.parametrize("columns", [12, 24, 48])
def test_carries_that_a_reshape_makes_behind_the_store_stay(columns: int) -> None:
    """Vectors told apart would have the same carries, and be told apart again without end."""
    length = LONG * 8
    x = halves(6, length)
    stored = chain(reshape(x, 6 * length // columns, columns), "neg")
    apart = Layout((6, length), (length + 8, 1))
    assert inside(segment_of([x], stored, lies={x: apart})) is None
