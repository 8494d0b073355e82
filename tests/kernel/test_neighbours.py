"""Lanes that read what lies next to theirs take it from one vector and the elements beside it."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from thunder_fuser.analysis.digits import Form, add, atom, evaluate, scale, shift
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import tensor
from thunder_fuser.ir.domain import axis
from thunder_fuser.kernel.statements import ReadVector, VectorAccess, print_access
from thunder_fuser.kernel.vectors import Accesses

ROWS, COLUMNS, LANES = 5, 64, 8
ROW, VECTOR, LANE = axis(ROWS), axis(COLUMNS // LANES), axis(LANES)
NAMES = {ROW: "i0", VECTOR: "i1", LANE: "lane"}
COLUMN = add(scale(atom(VECTOR), LANES), atom(LANE))


class Plane:
    """Rows of 64 halves that lie so far apart, and what lanes read there."""

    def __init__(self, pitch: int = COLUMNS) -> None:
        self.tv, self.pitch = tensor(DataType.BFloat16, ROWS, COLUMNS), pitch
        layouts = {self.tv: Layout((ROWS, COLUMNS), (pitch, 1))}
        self.accesses = Accesses(
            layouts, LANE, {self.tv: "T0"}, None, leaves_out=True, reaches=True
        )

    def offset(self, move: int) -> Form:
        return shift(add(scale(atom(ROW), self.pitch), COLUMN), move)

    def loads(self, *moves: int, is_guarded: bool = True) -> tuple[VectorAccess, ...]:
        for move in moves:
            guard = Window(shift(COLUMN, move), COLUMNS)
            guards = (guard,) if is_guarded and move else ()
            self.accesses.request(self.tv, self.offset(move), guards)
        return self.accesses.group_loads()

    def text(self, *moves: int, is_guarded: bool = True) -> list[str]:
        return [print_access(a, NAMES) for a in self.loads(*moves, is_guarded=is_guarded)]


def test_the_element_behind_a_vector_is_loaded_where_its_row_has_it() -> None:
    plane = Plane()
    assert plane.text(0, 1) == [
        "T0[64*i0 + 8*i1], 8 x bf16, 16 bytes at a time, "
        "behind it [8 + 64*i0 + 8*i1] where 0 <= 8 + 8*i1 < 64"
    ]
    reads = [plane.accesses.read(plane.tv, plane.offset(move), ()) for move in (0, 1)]
    assert reads == [ReadVector("v0", 1, delta, DataType.BFloat16) for delta in (0, 1)]


def test_a_vector_between_neighbours_is_loaded_though_nobody_reads_it_whole() -> None:
    """One in memory: of the first row of a plane the vector before it is not."""
    (load,) = Plane().loads(-1, 1)
    assert (load.access_bytes, len(load.before), len(load.behind)) == (16, 1, 1)
    assert Plane().loads(-8, -7)[0].access_bytes == DataType.BFloat16.itemsize


def test_of_rows_that_align_nothing_each_element_is_loaded_once() -> None:
    assert Plane(65).text(0, -1) == [
        "T0[65*i0 + 8*i1 + lane], 8 x bf16, 2 bytes at a time, "
        "before it [-1 + 65*i0 + 8*i1] where 0 <= -1 + 8*i1 < 64"
    ]


def test_where_a_guard_leaves_a_vector_out_single_elements_are_no_zeros() -> None:
    for pitch, is_whole in ((64, True), (65, False)):
        plane, rows = Plane(pitch), Window(shift(atom(ROW), -1), ROWS)
        columns = Window(shift(COLUMN, 1), COLUMNS)
        above = [plane.offset(-pitch), plane.offset(1 - pitch)]
        plane.accesses.request(plane.tv, above[0], (rows,))
        plane.accesses.request(plane.tv, above[1], (rows, columns))
        (load,) = plane.accesses.group_loads()
        assert (load.guards, len(load.behind)) == ((rows,), 1)
        assert plane.accesses.zeros == ({(plane.tv, above[0]): (rows,)} if is_whole else {})


def test_neighbours_that_lie_far_from_each_other_are_vectors_of_their_own() -> None:
    assert [len(load.before + load.behind) for load in Plane().loads(0, 4)] == [0, 0]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    moves=st.sets(st.integers(-5, 5), min_size=1, max_size=5),
    pitch=st.sampled_from([64, 65, 66, 68, 72]),
    is_guarded=st.booleans(),
)
def test_every_lane_finds_its_element(moves: set[int], pitch: int, is_guarded: bool) -> None:
    plane = Plane(pitch)
    vectors = {load.name: load for load in plane.loads(*sorted(moves), is_guarded=is_guarded)}
    for move, row, vector, lane in product(moves, range(ROWS), range(2), range(LANES)):
        read = plane.accesses.read(plane.tv, plane.offset(move), ())
        if not isinstance(read, ReadVector) or vectors[read.vector].others:
            continue
        load, place = vectors[read.vector], read.weight * lane + read.delta
        own = place - len(load.before)
        point = {ROW: row, VECTOR: vector, LANE: own if load.lane is not None else 0}
        if 0 <= own < load.length:
            offset, guards = load.offset, load.guards
            found = evaluate(offset, point) + (0 if load.lane is not None else own)
        else:
            single = load.beside[place if own < 0 else place - load.length]
            found, guards = evaluate(single.offset, point), single.guards
        here = {ROW: row, VECTOR: vector, LANE: lane}
        assert found == evaluate(plane.offset(move), here)
        is_read = not is_guarded or 0 <= evaluate(shift(COLUMN, move), here) < COLUMNS
        if is_read:
            assert all(0 <= evaluate(g.form, point) < g.extent for g in guards)
