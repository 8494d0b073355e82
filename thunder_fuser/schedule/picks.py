"""T11, the pick template: sums of what an index of each element sends to one place of its row.

    T2[r, c] = sum(T0[r, k]) for T1[r, k] == c

A block has one row or several short ones, as one row of as many columns. It counts the elements of
each column, in shared memory and by atomics of integers, so that it knows where to put them side by
side; a thread then adds those of its columns, and stores what follows. In which order they were put
there is not known: so few are added in the order of their bits, and of more each is a whole number
of a unit that the largest tells, which are added exactly (`device/picks.cuh`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod

from thunder_fuser.analysis.access import Element, Index
from thunder_fuser.analysis.digits import ZERO, Loaded, atom, ceil_div, unflatten
from thunder_fuser.analysis.index_map import edges_from
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.analysis.picked_rows import (
    COUNTER_BYTES,
    SLACK,
    refusal,
    shared_bytes,
    slot_bytes,
)
from thunder_fuser.analysis.reductions import is_picked
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.domain import IterDomain, axis
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.needs import check_sums, place_beside
from thunder_fuser.schedule.parameters import MAX_LANES, PickParameters
from thunder_fuser.schedule.rejected import Rejected, rejecting
from thunder_fuser.schedule.text import print_axes, print_elements
from thunder_fuser.schedule.vector_axes import VectorAxes, lane_of
from thunder_fuser.segment.segment import Segment, Store
from thunder_fuser.target import MAX_THREADS, WARP, Target

EACH = 8  # elements of a thread, of blocks that are small
MOST_EACH = 16  # of 1,024 threads, which have 64 registers each
FEWEST = 2048  # elements or columns that short rows of a block have together,
BUSY_BLOCKS = 4  # if a multiprocessor has as many blocks
PREFERRED = PickParameters()


@dataclass(frozen=True, eq=False)
class PickAxes(VectorAxes):
    """The `row` of the result, the `vector` and `lane` of its `columns`; and the vectors of the
    `places` of the row that is summed, of which there are so many."""

    row: IterDomain
    columns: int
    places: VectorAxes
    count: int

    @property
    def names(self) -> dict[IterDomain, str]:
        return {self.row: "row", **super().names, **self.places.names}


@dataclass(frozen=True, eq=False)
class PickSchedule:
    """A block of `threads` has so many `rows`. The `term` of a place goes to the column that the
    `index` holds."""

    segment: Segment
    axes: PickAxes
    sum: Element
    term: Element
    index: Loaded
    stores: tuple[tuple[Store, Index], ...]
    rows: int
    threads: int
    has_slots: bool  # for a few elements of each column
    streams: bool  # the stores bypass the cache

    @property
    def turns(self) -> int:
        """Vectors of places that a thread has."""
        return ceil_div(self.rows * self.axes.places.vector.size, self.threads)

    @property
    def shared_bytes(self) -> int:
        """The counters of a block, and its elements."""
        axes, dtype = self.axes, self.sum[0].dtype
        least = shared_bytes(self.rows, axes.count, axes.columns, dtype)
        slots = slot_bytes(self.rows, axes.columns, dtype) if self.has_slots else 0
        return max(least, slots)

    @property
    def blocks(self) -> int:
        return ceil_div(self.axes.row.size, self.rows)

    def __str__(self) -> str:
        axes, tensors = self.axes, self.segment.names
        along = print_axes([axes.row, *axes.places.names], axes.names)
        across = print_axes([a for a in (axes.vector, axes.lane) if a], axes.names)
        stored = [(s.value, index) for s, index in self.stores]
        streaming = ", streaming" if self.streams else ""
        return "\n".join(
            (
                f"picks over {along}, to columns {across}",
                f"  {self.rows} rows a block of {self.threads} threads"
                f"{', slots of columns' if self.has_slots else ''}",
                f"  reduce {print_elements([self.sum], tensors, axes.names)} "
                f"of {print_elements([self.term], tensors, axes.names)}, where "
                f"{tensors[self.index.tensor]} says",
                f"  store {print_elements(stored, tensors, axes.names)}{streaming}",
            )
        )


def schedule(
    segment: Segment, target: Target, parameters: PickParameters = PREFERRED
) -> PickSchedule:
    """Axes and threads. Raises Rejected."""
    if len(segment.long) != 1 or not all(map(is_picked, segment.long)):
        raise Rejected("not a sum of elements that have an index each, or others beside it")
    (tv,) = segment.long
    dim = tv.expr.dim
    if prod(tv.shape[dim + 1 :]) != 1:
        raise Rejected("an index of each element along another dim than the innermost")
    places, columns = tv.expr.tensors[0].shape[dim], tv.shape[dim]
    refused = refusal(places, columns, tv.dtype, target.shared_bytes)
    if refused is not None:
        raise Rejected(refused)
    axes = _axes(segment, prod(tv.shape[:dim]), places, columns)
    behind = (ZERO,) * (tv.ndim - dim - 1)
    own = (*unflatten(atom(axes.row), tv.shape[:dim]), axes.column, *behind)
    term, index = _term(tv, (*own[:dim], ZERO, *behind), axes)
    stores = tuple(
        (s, place_beside(s, tv.shape, axes.row, axes.column, columns)) for s in segment.stores
    )
    check_sums("a sum of picks", segment, {tv: own}, (term, (index.tensor, index.index)), stores)
    rows = _rows(axes, target)
    threads = _threads(axes, rows, parameters)
    written = sum(prod(s.target.shape) * s.target.dtype.itemsize for s in segment.stores)
    return PickSchedule(
        segment,
        axes,
        (tv, own),
        term,
        index,
        stores,
        rows,
        threads,
        parameters.slots and _has_slots(axes, rows, threads, tv.dtype, target),
        written >= max(target.l2_bytes, 1),
    )


reject = rejecting(schedule)


def _axes(segment: Segment, rows: int, places: int, columns: int) -> PickAxes:
    read = [tv for tv in segment.inputs if prod(tv.shape) == rows * places]
    written = [s.target for s in segment.stores]
    written += [tv for tv in segment.inputs if prod(tv.shape) == rows * columns]
    across = _vectors(segment, columns, written)
    along = VectorAxes(*_vectors(segment, places, read))
    return PickAxes(*across, axis(rows), columns, along, places)


def _vectors(
    segment: Segment, size: int, moved: Sequence[TensorView]
) -> tuple[IterDomain, IterDomain | None]:
    """Vectors of rows of that size, as wide as the smallest elements that are moved let them be."""
    least = min((tv.dtype.itemsize for tv in moved), default=COUNTER_BYTES)
    narrow = [segment.layouts[tv].alignment for tv in moved if tv.dtype.itemsize == least]
    lanes = gcd(size, min(MAX_LANES, min([MAX_ALIGNMENT, *narrow]) // least or 1))
    return axis(size // lanes), lane_of(lanes)


def _term(tv: TensorView, index: Index, axes: PickAxes) -> tuple[Element, Loaded]:
    """The element at a place of the row, and where it goes."""
    (reduced,) = (a for a in tv.domain.logical if a.is_reduction)
    values = dict(zip(tv.logical, index, strict=True))
    x, by = edges_from(tv, {**values, reduced: axes.places.column})
    return (x.producer, x.index), Loaded(by.producer, by.index, axes.columns)


def _rows(axes: PickAxes, target: Target) -> int:
    """Of a block: several short ones, if every multiprocessor has blocks enough."""
    together = FEWEST // max(axes.count, axes.columns)
    return max(1, min(together, axes.row.size // (BUSY_BLOCKS * target.multiprocessors)))


def _threads(axes: PickAxes, rows: int, parameters: PickParameters) -> int:
    """Of a block, whole warps: columns take fewer registers than elements."""
    wanted = max(rows * axes.count // EACH, rows * axes.columns // MOST_EACH)
    least = ceil_div(rows * axes.count, MOST_EACH)
    threads = max(parameters.threads or wanted, least)
    return min(MAX_THREADS, ceil_div(max(threads, 1), WARP) * WARP)


def _has_slots(axes: PickAxes, rows: int, threads: int, dtype: DataType, target: Target) -> bool:
    """Whether there is room for a few elements of each column in as many blocks as fill half of a
    multiprocessor, and few columns have more. Of 32-bit floats it was an eighth slower."""
    at_once = max(1, target.threads_per_multiprocessor // 2 // threads)
    room = target.shared_bytes // at_once - SLACK
    is_near = dtype.is_reduced_precision and axes.count <= axes.columns
    return is_near and slot_bytes(rows, axes.columns, dtype) <= room
