"""T2, the row template: reductions along rows, and what is computed from them, in one kernel.

    mean = sum(x, rows) / n;  y = (x - mean) * w

    row r, vector c, lane l       x read once and kept packed in registers
    phase 0   sum of x[r, c, l]   over the threads of the row
    phase 1   y[r, c, l]          with the sum as a scalar

The threads of one row form part of a warp, a warp or a block. A phase evaluates one level of
reductions over the whole row from the packed loads; values computed in one phase are computed anew
in the next. Rows too long for the registers are read again in every phase.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from thunder_fuser.analysis.access import Demand, Index, demand
from thunder_fuser.analysis.digits import Form, atom, combine, divmod_form
from thunder_fuser.analysis.index_map import edges_from
from thunder_fuser.analysis.layout import MAX_ALIGNMENT, offset_of
from thunder_fuser.ir.domain import IterDomain, ParallelType, axis, parallelize
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.segment.reductions import is_long, row_shape
from thunder_fuser.segment.segment import Segment, Store

WARP = 32
MAX_THREADS = 1024  # of one block
BLOCK = 128  # threads of a block that holds several short rows
FEW_VECTORS = 1024  # of a row: up to here a thread holds 4 of them, beyond 8
REGISTERS = 65536  # of a multiprocessor, 32 bits each
SCRATCH = 32  # registers that a thread needs beside its row


@dataclass(frozen=True, eq=False)
class RowAxes:
    """The axes of the template: `row` and, inside it, `vector` and `lane`."""

    row: IterDomain
    vector: IterDomain
    lane: IterDomain | None

    @property
    def lanes(self) -> int:
        return 1 if self.lane is None else self.lane.size

    @property
    def column(self) -> Form:
        inner = Form() if self.lane is None else atom(self.lane)
        return combine(atom(self.vector), inner, self.lanes)


@dataclass(frozen=True, eq=False)
class Phase:
    """Reductions of one level, each with its result's index and its term's index."""

    reductions: tuple[tuple[TensorView, Index], ...]
    terms: tuple[tuple[TensorView, Index], ...]


@dataclass(frozen=True, eq=False)
class RowSchedule:
    """`full` are stores of whole rows, `single` of one element per row, each with its index."""

    segment: Segment
    axes: RowAxes
    phases: tuple[Phase, ...]
    full: tuple[tuple[Store, Index], ...]
    single: tuple[tuple[Store, Index], ...]
    threads_per_row: int
    rows_per_block: int
    is_persistent: bool

    @property
    def vectors_per_thread(self) -> int:
        return -(-self.axes.vector.size // self.threads_per_row)


class Rejected(Exception):
    """The segment is not of this shape; the text says why."""


def reject(segment: Segment) -> str | None:
    """Why T2 cannot run this segment, or None."""
    try:
        schedule(segment)
    except Rejected as reason:
        return str(reason)
    return None


def schedule(segment: Segment) -> RowSchedule:
    """Axes, phases and threads. Raises Rejected."""
    reductions = [tv for tv in segment.tensors if tv not in segment.leaves and is_long(tv)]
    if not reductions:
        raise Rejected("no reduction longer than a thread sums in registers")
    shapes = {row_shape(tv) for tv in reductions}
    if len(shapes) != 1 or None in shapes:
        raise Rejected("reductions of several shapes, or not along rows")
    rows, columns = shapes.pop() or (0, 0)
    if any(tv.dtype.is_complex for tv in reductions):
        raise Rejected("a complex reduction")
    axes = _axes(segment, rows, columns)
    stores = [_place(store, rows, columns, axes) for store in segment.stores]
    phases = _phases(segment, reductions, axes)
    _check_rows(segment, reductions, axes, phases, stores)
    full = tuple((s, i) for s, i in stores if prod(s.value.shape) == rows * columns)
    single = tuple((s, i) for s, i in stores if (s, i) not in full)
    threads, persistent = _threads(segment, axes, phases, full)
    per_block = max(BLOCK // threads, 1)
    return RowSchedule(segment, axes, phases, full, single, threads, per_block, persistent)


def unflatten(form: Form, sizes: Sequence[int]) -> Index:
    """The index of each dim from a linear index over all of them."""
    found: list[Form] = []
    for size in reversed(sizes):
        form, low = divmod_form(form, size)
        found.append(low)
    return tuple(reversed(found))


def _axes(segment: Segment, rows: int, columns: int) -> RowAxes:
    itemsizes = [tv.dtype.itemsize for tv in segment.inputs if prod(tv.shape) == rows * columns]
    lanes = MAX_ALIGNMENT // max(min(itemsizes, default=4), 1)
    alignments = [
        segment.layouts[tv].alignment // tv.dtype.itemsize
        for tv in (*segment.inputs, *(s.target for s in segment.stores))
        if prod(tv.shape) == rows * columns
    ]
    lanes = max(min([lanes, *alignments]), 1)
    while columns % lanes:
        lanes //= 2
    lane = parallelize(axis(lanes), ParallelType.VECTORIZE) if lanes > 1 else None
    return RowAxes(axis(rows), axis(columns // lanes), lane)


def _place(store: Store, rows: int, columns: int, axes: RowAxes) -> tuple[Store, Index]:
    """The store's index in terms of row and column."""
    shape = store.value.shape
    if prod(shape) == rows:
        return store, unflatten(atom(axes.row), shape)
    for cut in range(len(shape) + 1):
        if prod(shape[:cut]) == rows and prod(shape[cut:]) == columns:
            row, column = (
                unflatten(atom(axes.row), shape[:cut]),
                unflatten(axes.column, shape[cut:]),
            )
            return store, (*row, *column)
    raise Rejected(f"a result of shape {list(shape)} has no rows of {columns} elements")


def _phases(segment: Segment, reductions: Sequence[TensorView], axes: RowAxes) -> tuple[Phase, ...]:
    """Reductions by level: a level needs the results of the ones before."""
    level: dict[TensorView, int] = {}
    leaves = segment.leaves | set(reductions)
    for tv in reductions:  # in topological order
        term, index = term_of(tv, axes)
        needed = [p for p, _ in demand([(term, index)], leaves).leaves if p in level]
        if term in level:
            needed.append(term)
        level[tv] = 1 + max((level[p] for p in needed), default=-1)
    phases = []
    for depth in range(max(level.values()) + 1):
        members = [tv for tv in reductions if level[tv] == depth]
        results = tuple((tv, unflatten(atom(axes.row), tv.shape)) for tv in members)
        phases.append(Phase(results, tuple(term_of(tv, axes) for tv in members)))
    return tuple(phases)


def term_of(reduction: TensorView, axes: RowAxes) -> tuple[TensorView, Index]:
    """The element that `reduction` combines at (row, column)."""
    reduced = [a for a in reduction.domain.logical if a.is_reduction]
    row = unflatten(atom(axes.row), reduction.shape)
    column = unflatten(axes.column, [a.size for a in reduced])
    values = dict(zip(reduction.logical, row, strict=True))
    values |= dict(zip(reduced, column, strict=True))
    (edge,) = edges_from(reduction, values)
    return edge.producer, edge.index


def needs_of(
    segment: Segment, reductions: Sequence[TensorView], results: Sequence[tuple[TensorView, Index]]
) -> Demand:
    """What `results` need down to memory and the reductions."""
    return demand(results, segment.leaves | set(reductions))


def _check_rows(
    segment: Segment,
    reductions: Sequence[TensorView],
    axes: RowAxes,
    phases: Sequence[Phase],
    stores: Sequence[tuple[Store, Index]],
) -> None:
    """Every reduction must be read at the row that is being worked on, and an in-place target at
    the element that is being written."""
    written = {offset_of(segment.layouts[s.target], i) for s, i in stores if s.is_in_place}
    targets = {s.target for s, _ in stores if s.is_in_place}
    results = [*(t for p in phases for t in p.terms), *((s.value, i) for s, i in stores)]
    own = {tv: unflatten(atom(axes.row), tv.shape) for tv in reductions}
    for result in results:
        if result[0] in own and result[1] != own[result[0]]:
            raise Rejected("a reduction is read at another row than it belongs to")
        for tv, index in needs_of(segment, reductions, [result]).leaves:
            if tv in own and index != own[tv]:
                raise Rejected("a reduction is read at another row than it belongs to")
            if tv in targets and offset_of(segment.layouts[tv], index) not in written:
                raise Rejected("an in-place target is read at another element than it is written")


def _threads(
    segment: Segment,
    axes: RowAxes,
    phases: Sequence[Phase],
    full: Sequence[tuple[Store, Index]],
) -> tuple[int, bool]:
    """Threads of one row, and whether they can keep it in registers."""
    vectors = axes.vector.size
    held = 4 if vectors <= FEW_VECTORS else 8
    threads = 1
    while threads < MAX_THREADS and threads * held < vectors:
        threads *= 2
    reductions = {tv for phase in phases for tv, _ in phase.reductions}
    results = [*(t for p in phases for t in p.terms), *((s.value, i) for s, i in full)]
    rows = {
        (tv, index)
        for tv, index in needs_of(segment, tuple(reductions), results).leaves
        if tv not in reductions
        and axes.row in offset_of(segment.layouts[tv], index).bases
        and axes.vector in offset_of(segment.layouts[tv], index).bases
    }
    row_bytes = sum(tv.dtype.itemsize for tv, _ in rows) * axes.lanes
    registers = -(-vectors // threads) * row_bytes // 4 + SCRATCH
    return threads, registers * max(threads, BLOCK) <= REGISTERS and registers <= 255 - SCRATCH
