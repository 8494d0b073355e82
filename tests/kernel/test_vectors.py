"""Elements that lie side by side become one access, as wide as every address allows."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thunder_fuser.analysis.digits import Form, add, atom, divmod_form, evaluate, flip, scale, shift
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import tensor
from thunder_fuser.ir.domain import IterDomain, axis
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.statements import (
    Guarded,
    Literal,
    ReadElement,
    ReadVector,
    VectorAccess,
    WriteElement,
    WriteVector,
)
from thunder_fuser.kernel.vectors import MAX_RUN_BYTES, Accesses, loads_read_by
from thunder_fuser.schedule.flat_stores import MOST_PLACES

ROW = axis(10)


class Reads:
    """A tensor of 4096 elements, a lane, and the loads that offsets become."""

    def __init__(
        self,
        lanes: int,
        dtype: DataType = DataType.Float,
        alignment: int = 16,
        streams: bool = False,
        carries: bool = False,
    ) -> None:
        self.tv: TensorView = tensor(dtype, 4096)
        self.lane: IterDomain | None = axis(lanes) if lanes > 1 else None
        layouts = {self.tv: Layout((4096,), (1,), alignment)}
        names = {self.tv: "T0"}
        self.accesses = Accesses(layouts, self.lane, names, streams, carries=carries)

    def at(self, weight: int, constant: int, row: int = 64) -> Form:
        """`row * ROW + weight * lane + constant`."""
        inner = Form() if self.lane is None else scale(atom(self.lane), weight)
        return shift(add(scale(atom(ROW), row), inner), constant)

    def loads(self, *offsets: Form) -> list[tuple[int, int, int]]:
        """Start, length and bytes per access of each load of these elements."""
        for offset in offsets:
            self.accesses.request(self.tv, offset, ())
        made = self.accesses.group_loads()
        return [(v.offset.constant, v.length, v.access_bytes) for v in made]


def test_lanes_side_by_side_are_one_vector() -> None:
    r = Reads(4)
    assert r.loads(r.at(1, 0)) == [(0, 4, 16)]


def test_a_load_is_left_out_where_its_guards_tell_of_whole_vectors() -> None:
    r = Reads(4)
    r.accesses.leaves_out = True
    first, all_lanes = Window(atom(ROW), 1), Window(r.at(1, 0), 9)
    r.accesses.request(r.tv, r.at(1, 0), (first,))
    r.accesses.request(r.tv, r.at(1, 4), ())
    r.accesses.request(r.tv, r.at(1, 8), (all_lanes,))
    loads = r.accesses.group_loads()
    assert [(v.offset.constant, v.length, v.guards) for v in loads] == [
        (4, 4, ()),
        (0, 4, (first,)),
        (8, 4, (all_lanes,)),
    ]
    assert [v.lane is not None for v in loads] == [False, False, True]


def test_vectors_of_which_a_thread_needs_one_are_one_load() -> None:
    """The halves that a rotary embedding swaps."""
    r = Reads(4)
    r.accesses.leaves_out = True
    near, far = (Window(atom(ROW), 1),), (Window(shift(atom(ROW), -1), 2),)
    r.accesses.request(r.tv, r.at(1, 8), near)
    r.accesses.request(r.tv, r.at(1, 0), far)
    (load,) = r.accesses.group_loads()
    assert [(c.offset.constant, c.guards) for c in load.choices] == [(8, near), (0, far)]
    assert r.accesses.read(r.tv, r.at(1, 0), far) == ReadVector("v0", 1, 0, DataType.Float)


def test_elements_of_which_a_lane_needs_one_are_one_load() -> None:
    r = Reads(4)
    r.accesses.leaves_out = True
    first, other = (Window(r.at(1, 0, row=4), 9),), (Window(r.at(1, -9, row=4), 40),)
    r.accesses.request(r.tv, r.at(1, 7), first)
    r.accesses.request(r.tv, r.at(1, 99), other)
    (load,) = r.accesses.group_loads()
    assert load.choices == (Guarded(r.at(1, 7), first), Guarded(r.at(1, 99), other))
    reads = [r.accesses.read(r.tv, r.at(1, 7), first), r.accesses.read(r.tv, r.at(1, 99), other)]
    assert reads == 2 * [ReadVector("v0", 1, 0, DataType.Float)]


def test_many_elements_that_lanes_leave_out_are_read_one_by_one() -> None:
    r = Reads(4)
    r.accesses.leaves_out = True
    tests = [Window(r.at(1, k), 9) for k in range(MOST_PLACES + 1)]
    for k, test in enumerate(tests):
        r.accesses.request(r.tv, r.at(1, k), (test,))
    assert r.accesses.group_loads() == ()
    read = r.accesses.read(r.tv, r.at(1, 1), (tests[1],))
    assert read == ReadElement("T0", r.at(1, 1), DataType.Float, (tests[1],))


def test_an_element_that_is_read_under_different_guards_is_no_part_of_a_vector() -> None:
    """Along an expanded axis; one reader without guards needs it everywhere."""
    r = Reads(4)
    r.accesses.leaves_out = True
    guards = [(Window(atom(ROW), count),) for count in (1, 2)]
    for each in guards:
        r.accesses.request(r.tv, r.at(1, 0), each)
    assert r.accesses.group_loads() == ()
    read = r.accesses.read(r.tv, r.at(1, 0), guards[1])
    assert read == ReadElement("T0", r.at(1, 0), DataType.Float, guards[1])
    r.accesses.request(r.tv, r.at(1, 0), ())
    assert [v.guards for v in r.accesses.group_loads()] == [()]


def test_interleaved_elements_are_one_run() -> None:
    r = Reads(4)
    assert r.loads(r.at(2, 1), r.at(2, 0)) == [(0, 8, 16)]
    assert r.accesses.read(r.tv, r.at(2, 1), ()) == ReadVector("v0", 2, 1, DataType.Float)


def test_half_of_an_interleaved_pair_is_no_run() -> None:
    """Nobody asked for the elements between: each lane reads its own."""
    r = Reads(4)
    assert r.loads(r.at(2, 1)) == []
    assert r.accesses.read(r.tv, r.at(2, 1), ()) == ReadElement(
        "T0", r.at(2, 1), DataType.Float, ()
    )


def test_adjacent_blocks_are_one_run_and_distant_ones_two() -> None:
    r = Reads(4)
    assert r.loads(r.at(1, 4), r.at(1, 0), r.at(1, 32)) == [(0, 8, 16), (32, 4, 16)]


def test_a_run_fills_no_more_registers_than_the_limit() -> None:
    r, count = Reads(4), 2 * MAX_RUN_BYTES // 16
    assert r.loads(*(r.at(1, 4 * k) for k in range(count))) == [(0, 16, 16), (16, 16, 16)]


def test_what_all_lanes_share_is_read_once() -> None:
    r = Reads(4)
    assert r.loads(r.at(0, 5), r.at(0, 6), r.at(0, 9)) == [(5, 2, 4), (9, 1, 4)]


def test_a_lane_that_walks_backward_reads_element_by_element() -> None:
    r = Reads(4)
    assert r.lane is not None
    backward = add(scale(atom(ROW), 64), flip(atom(r.lane), 4))
    assert r.loads(backward) == []


@pytest.mark.parametrize(("length", "is_carried"), [(49, True), (9, True), (7, False)])
def test_what_changes_once_along_the_lanes_is_two_elements(length: int, is_carried: bool) -> None:
    """A scale of rows of 49, read at (8*row + lane + 3) / 49; of shorter ones lanes meet more."""
    r = Reads(8, carries=True)
    assert r.lane is not None
    offset = divmod_form(r.at(1, 3, row=8), length)[0]
    r.accesses.request(r.tv, offset, ())
    loads = r.accesses.group_loads()
    assert len(loads) == is_carried
    assert isinstance(r.accesses.read(r.tv, offset, ()), ReadVector if is_carried else ReadElement)
    for load, row, lane in product(loads, range(10), range(8)):
        assert load.carried is not None
        point = {ROW: row, r.lane: lane}
        is_first = lane < evaluate(load.carried.left, point)
        found = load.offset if is_first else load.carried.offset
        assert r.lane not in found.bases
        assert evaluate(found, point) == evaluate(offset, point)


def test_the_place_in_a_row_is_read_lane_by_lane() -> None:
    r = Reads(8, carries=True)
    assert r.loads(divmod_form(r.at(1, 3, row=8), 49)[1]) == []


def test_lanes_that_lie_apart_are_a_vector_where_it_is_kept() -> None:
    """As a bias at (8*vector + lane) % 4097 that a loop over rows reads."""
    r = Reads(4)
    assert r.lane is not None
    apart = divmod_form(add(scale(atom(ROW), 4), atom(r.lane)), 7)[1]
    assert r.loads(apart, r.at(1, 0)) == [(0, 4, 16)]
    assert isinstance(r.accesses.read(r.tv, apart, ()), ReadElement)
    kept = Accesses(r.accesses.layouts, r.lane, {r.tv: "T0"}, None, is_kept=lambda f: f == apart)
    kept.request(r.tv, apart, ())
    (load,) = kept.group_loads()
    assert (load.offset, load.length, load.access_bytes) == (apart, 4, 4)
    assert kept.read(r.tv, apart, ()) == ReadVector("v0", 1, 0, DataType.Float)


@pytest.mark.parametrize(
    ("dtype", "alignment", "start", "row", "width"),
    [
        (DataType.Float, 16, 0, 64, 16),
        (DataType.Float, 8, 0, 64, 8),
        (DataType.Float, 16, 2, 64, 8),  # the constant
        (DataType.Float, 16, 0, 65, 4),  # rows of odd length
        (DataType.BFloat16, 16, 0, 64, 8),  # four of two bytes are no more
        (DataType.BFloat16, 2, 0, 64, 2),
        (DataType.Double, 16, 0, 64, 16),
        (DataType.ComplexDouble, 16, 0, 65, 16),
    ],
)
def test_an_access_is_as_wide_as_every_address_allows(
    dtype: DataType, alignment: int, start: int, row: int, width: int
) -> None:
    r = Reads(4, dtype, alignment)
    assert r.loads(r.at(1, start, row)) == [(start, 4, width)]


def test_a_guarded_element_is_read_alone_and_under_its_guard() -> None:
    r = Reads(4)
    guard = (Window(r.at(1, -2), 8),)
    r.accesses.request(r.tv, r.at(1, -2), guard)
    assert r.accesses.group_loads() == ()
    read = r.accesses.read(r.tv, r.at(1, -2), guard)
    assert read == ReadElement("T0", r.at(1, -2), DataType.Float, guard)


def test_a_guard_falls_where_somebody_reads_the_element_anyway() -> None:
    r = Reads(4)
    guard = (Window(r.at(1, -2), 8),)
    r.accesses.request(r.tv, r.at(1, 0), guard)
    r.accesses.request(r.tv, r.at(1, 0), ())
    r.accesses.request(r.tv, r.at(1, 0), guard)
    assert len(r.accesses.group_loads()) == 1


def stored(r: Reads, *values: tuple[Form, float]) -> tuple[list[object], tuple[VectorAccess, ...]]:
    targets = [(r.tv, offset, Literal(value, DataType.Float)) for offset, value in values]
    writes, vectors = r.accesses.group_stores(targets)
    return list(writes), vectors


def test_equal_values_at_several_places_are_one_vector_stored_twice() -> None:
    r = Reads(4, streams=True)
    writes, vectors = stored(r, (r.at(1, 0), 1.5), (r.at(1, 64), 1.5), (r.at(1, 128), 2.5))
    assert [v.name for v in vectors] == ["w0", "w0", "w2"]
    assert [w.vector for w in writes if isinstance(w, WriteVector)] == ["w0", "w2"]
    assert all(v.is_streaming for v in vectors)


def test_a_store_with_gaps_writes_its_elements_alone() -> None:
    r = Reads(4)
    writes, vectors = stored(r, (r.at(2, 0), 1.5))
    assert vectors == ()
    assert [type(w) for w in writes] == [WriteElement]


def test_a_scope_loads_what_its_statements_read() -> None:
    r = Reads(4)
    r.loads(r.at(1, 0), r.at(1, 64))
    writes, _ = stored(r, (r.at(1, 0), 1.0))
    assert loads_read_by(r.accesses.group_loads(), writes) == ()  # type: ignore[arg-type]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    lanes=st.sampled_from([1, 2, 4, 8]),
    places=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40)), min_size=1, max_size=8),
    row=st.sampled_from([0, 1, 3, 48, 64]),
    dtype=st.sampled_from([DataType.Int8, DataType.BFloat16, DataType.Float, DataType.Double]),
    alignment=st.sampled_from([1, 2, 4, 8, 16]),
)
def test_every_lane_finds_its_element_and_no_load_reads_more(
    lanes: int, places: list[tuple[int, int]], row: int, dtype: DataType, alignment: int
) -> None:
    r = Reads(lanes, dtype, alignment=max(alignment, dtype.itemsize))
    offsets = [r.at(weight, constant, row) for weight, constant in places]
    r.loads(*offsets)
    vectors = {v.name: v for v in r.accesses.group_loads()}
    for i, lane in product(range(ROW.size), range(lanes)):
        point = {ROW: i} if r.lane is None else {ROW: i, r.lane: lane}
        wanted = {
            evaluate(o, {**point, **({r.lane: k} if r.lane else {})})
            for o in offsets
            for k in range(lanes)
        }
        for access in vectors.values():
            start = evaluate(access.offset, point)
            assert start * dtype.itemsize % access.access_bytes == 0
            assert access.length * dtype.itemsize % access.access_bytes == 0
            assert set(range(start, start + access.length)) <= wanted
        for offset in offsets:
            match r.accesses.read(r.tv, offset, ()):
                case ReadVector(vector, weight, delta):
                    found = evaluate(vectors[vector].offset, point) + weight * lane + delta
                    assert weight * lane + delta < vectors[vector].length
                case read:
                    assert isinstance(read, ReadElement)
                    found = evaluate(read.offset, point)
            assert found == evaluate(offset, point)
