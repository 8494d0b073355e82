"""Of which flat planes a thread has the same columns of several rows."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.programs import expand, piece, unsqueeze
from tests.schedule.segments import floats, halves, segment_of
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.schedule import map
from thunder_fuser.schedule.parameters import MapParameters
from thunder_fuser.segment.segment import Segment

P = MapParameters(reused=8)
COLUMNS = 257
PACK = 8  # rows of an odd number of 2-byte elements that are whole vectors


def normalised(
    rows: int, columns: int = COLUMNS, dtype: DataType = DataType.Half, of_columns: int = 4
) -> Segment:
    """A plane, plus and times so many f32 values of each column by turns."""
    x = tensor(dtype, rows, columns)
    values = [floats(columns) for _ in range(of_columns)]
    y = call("cast", x, dtype=DataType.Float)
    for k, value in enumerate(values):
        y = call("mul" if k % 2 else "add", y, value)
    return segment_of([x, *values], call("cast", y, dtype=dtype))


def owned(segment: Segment, parameters: MapParameters = P) -> list[int]:
    """Rows of each class in one thread."""
    return [c.group.nests[0].instances for c in map.schedule(segment, parameters).classes]


def test_a_thread_has_the_same_vector_of_several_packs_of_rows() -> None:
    assert str(map.schedule(normalised(8 * PACK * 6), P)) == dedent("""\
        map, blocks of 128
          class over i0{6}, i1{514} and lane{4}
            T10[64*i0 + 8*u0 + ((4*i1 + lane)/257), ((4*i1 + lane)%257)], u0{8} in one thread""")


@pytest.mark.parametrize(
    ("packs", "count"), [(48, [8]), (14, [7]), (13, [8, 1]), (11, [8, 1]), (5, [5]), (1, [1])]
)
def test_as_many_as_leave_none_over_or_as_many_as_can_be(packs: int, count: list[int]) -> None:
    assert owned(normalised(PACK * packs)) == count


def test_rows_that_are_no_pack_are_left_over_too() -> None:
    assert str(map.schedule(normalised(8 * PACK + 3), P)) == dedent("""\
        map, blocks of 128
          class over i0{514} and lane{4}
            T10[8*u0 + ((4*i0 + lane)/257), ((4*i0 + lane)%257)], u0{8} in one thread
          class over i0{96} and lane{8}
            T10[64 + ((8*i0 + lane)/257), ((8*i0 + lane)%257)]
          class over i0{3}
            T10[66, 254 + i0]""")


@pytest.mark.parametrize(
    ("columns", "dtype", "of_columns", "is_owned"),
    [
        (257, DataType.Half, 4, True),
        (257, DataType.BFloat16, 2, True),
        (257, DataType.Half, 1, True),
        (257, DataType.Float, 4, True),
        (257, DataType.Float, 3, False),  # vectors of four: as much as the plane's traffic hides
        (256, DataType.Half, 4, False),  # rows of whole vectors
        (255, DataType.Half, 2, False),  # of few columns the threads of a warp meet all banks
        (255, DataType.Half, 4, True),  # but take longer to find and convert so many values
        (127, DataType.Float, 4, False),
    ],
)
def test_where_lanes_that_load_one_by_one_take_longer_than_the_plane(
    columns: int, dtype: DataType, of_columns: int, is_owned: bool
) -> None:
    found = owned(normalised(8 * PACK, columns, dtype, of_columns))
    assert (found[0] > 1) == is_owned


@pytest.mark.parametrize(("of_columns", "loaded"), [(1, 1), (2, 8)])
def test_long_rows_are_packed_where_their_values_leave_the_cache(
    of_columns: int, loaded: int
) -> None:
    """Rows of odd length that a thread would have five of, element by element."""
    x, values = halves(5 * 64, 50257), [halves(50257) for _ in range(of_columns)]
    y = x
    for value in values:
        y = call("add", y, value)
    segment = segment_of([x, *values], call("cast", y, dtype=DataType.BFloat16))
    assert owned(segment)[0] == loaded


@pytest.mark.parametrize(("reused", "count"), [(1, 1), (2, 2), (4, 4)])
def test_the_limit_is_a_parameter(reused: int, count: int) -> None:
    assert owned(normalised(8 * PACK), MapParameters(reused=reused)) == [count]


def test_enough_elements_are_left_to_run_in_parallel() -> None:
    busy = 2 * PACK * COLUMNS
    assert owned(normalised(8 * PACK), MapParameters(reused=8, busy=busy)) == [4]


def test_registers_limit_how_many_rows() -> None:
    """Three planes of six columns' values: 192 bytes that a thread loads."""
    planes = [halves(8 * PACK, COLUMNS) for _ in range(3)]
    values = [floats(COLUMNS) for _ in range(6)]
    total = planes[0]
    for other in (*planes[1:], *values):
        total = call("add", total, other)
    segment = segment_of([*planes, *values], call("cast", total, dtype=DataType.BFloat16))
    assert owned(segment) == [4]


def test_values_of_rows_are_read_at_their_row() -> None:
    x, values = halves(8 * PACK, COLUMNS), [floats(COLUMNS) for _ in range(4)]
    scale = floats(8 * PACK)
    y = call("mul", x, expand(unsqueeze(scale, 1), 8 * PACK, COLUMNS))
    for value in values:
        y = call("add", y, value)
    segment = segment_of([x, scale, *values], call("cast", y, dtype=DataType.BFloat16))
    assert owned(segment) == [8]


def test_rows_that_lie_apart_stay() -> None:
    x, values = halves(8 * PACK, 300), [floats(COLUMNS) for _ in range(4)]
    y = piece(x, 1, 0, COLUMNS)
    for value in values:
        y = call("add", y, value)
    assert owned(segment_of([x, *values], call("cast", y, dtype=DataType.BFloat16)))[0] == 1


def test_kernels_for_many_lengths_keep_rows() -> None:
    assert set(owned(normalised(8 * PACK), MapParameters(reused=8, rests=True))) == {1}
