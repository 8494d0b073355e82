"""T6, the group template: sums of the rows that an index sends to one place.

    T4[v, d] = sum(T0[order[k], d]) for ends[v - 1] <= k < ends[v]

A block owns neighbouring rows of the result. A part of its threads sums a row of few terms alone,
so that empty rows cost a store; rows of more terms follow, shared by all parts, whose sums meet in
shared memory. Each order is fixed, and each row is written once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from thunder_fuser.analysis.access import Index, demand
from thunder_fuser.analysis.digits import Form, Loaded, atom, combine
from thunder_fuser.analysis.index_map import edges_from
from thunder_fuser.analysis.layout import MAX_ALIGNMENT, offset_of
from thunder_fuser.analysis.reductions import is_grouped, is_long
from thunder_fuser.ir.domain import IterDomain, ParallelType, axis, parallelize
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.parameters import GroupParameters
from thunder_fuser.schedule.rejected import Rejected, rejection
from thunder_fuser.schedule.row_axes import VectorAxes, unflatten
from thunder_fuser.schedule.rows import check_places
from thunder_fuser.schedule.text import print_axes, print_elements
from thunder_fuser.segment.segment import Segment, Store
from thunder_fuser.target import Target

WARP = 32
THREADS = 256  # of one block
FEW = 16  # terms that a part sums alone
BATCH = 4  # terms whose loads are in flight together
BUSY_BLOCKS = 8  # of a multiprocessor, below which a block takes fewer rows
TURNS = 4  # rows of a part, so that the blocks of an empty table do not live for one store alone
PREFERRED = GroupParameters()


@dataclass(frozen=True, eq=False)
class GroupAxes(VectorAxes):
    """The `row` of the result, its dims up to that of the groups; the `vector` and `lane` of the
    dims behind it; and the `term`, a place of the order, of which a row has a stretch."""

    row: IterDomain
    term: IterDomain


@dataclass(frozen=True, eq=False)
class GroupSchedule:
    """`ends` is the tensor with the end of each group and the group of a row."""

    segment: Segment
    axes: GroupAxes
    ends: tuple[TensorView, Form]
    skip: int  # a group without terms, -1 for none
    sums: tuple[tuple[TensorView, Index], ...]
    terms: tuple[tuple[TensorView, Index], ...]
    stores: tuple[tuple[Store, Index], ...]
    threads_across: int  # threads side by side along a row
    parts: int  # the parts of a block's threads
    rows_per_block: int
    streams: bool  # the stores bypass the cache

    def is_uniform(self, place: Loaded) -> bool:
        """True for a loaded index that is the same in all lanes."""
        return self.axes.lane not in place.bases

    def __str__(self) -> str:
        axes, tensors = self.axes, self.segment.names
        every = [axes.row, axes.vector, axes.term]
        names = dict(zip(every, ("row", "vector", "term"), strict=True))
        if axes.lane is not None:
            every.append(axes.lane)
            names[axes.lane] = "lane"
        stored = print_elements([(s.value, index) for s, index in self.stores], tensors, names)
        return "\n".join(
            [
                f"groups over {print_axes(every, names)}, which end in {tensors[self.ends[0]]}",
                f"  {self.threads_across} threads across, {self.parts} parts that share a row of "
                f"more than {FEW} terms",
                f"  reduce {print_elements(self.sums, tensors, names)} "
                f"of {print_elements(self.terms, tensors, names)}",
                f"  store {stored}",
            ]
        )


def reject(segment: Segment, target: Target) -> str | None:
    """Why T6 cannot run this segment, or None."""
    return rejection(schedule, segment, target)


def schedule(
    segment: Segment, target: Target, parameters: GroupParameters = PREFERRED
) -> GroupSchedule:
    """Axes and threads. Raises Rejected."""
    long = [tv for tv in segment.tensors if tv not in segment.leaves and is_long(tv)]
    if not long or not all(map(is_grouped, long)):
        raise Rejected("not sums of groups, or others beside them")
    groups = {_groups(tv) for tv in long}
    if len(groups) != 1:
        raise Rejected("sums of groups of different shapes or orders")
    shape, dim, ends, terms, skip = groups.pop()
    axes = _axes(segment, shape, dim, terms)
    index = (
        *unflatten(atom(axes.row), shape[: dim + 1]),
        *unflatten(axes.column, shape[dim + 1 :]),
    )
    sums = tuple((tv, index) for tv in long)
    added = tuple(_term(tv, index, axes) for tv in long)
    stores = tuple((store, _place(store, shape, axes)) for store in segment.stores)
    _check(segment, ends, sums, added, stores)
    across = parameters.across
    while across > 1 and across // 2 >= axes.vector.size:
        across //= 2
    parts = min(THREADS // across, WARP)
    blocks = -(-axes.row.size // (parts * TURNS)) * -(-axes.vector.size // across)
    turns = parameters.turns or (TURNS if blocks >= BUSY_BLOCKS * target.multiprocessors else 1)
    written = sum(prod(s.target.shape) * s.target.dtype.itemsize for s in segment.stores)
    streams = written >= max(target.l2_bytes, 1)
    return GroupSchedule(
        segment,
        axes,
        (ends, index[dim]),
        skip,
        sums,
        added,
        stores,
        across,
        parts,
        parts * turns,
        streams,
    )


def _groups(tv: TensorView) -> tuple[tuple[int, ...], int, TensorView, int, int]:
    """What sums of one kernel have in common."""
    assert tv.definition is not None
    _, order, ends = tv.definition.tensors
    dim, skip = tv.definition.attr("dim"), tv.definition.attr("skip")
    assert isinstance(dim, int)
    assert isinstance(skip, int)
    return tv.shape, dim, ends, order.shape[0], skip


def _axes(segment: Segment, shape: tuple[int, ...], dim: int, terms: int) -> GroupAxes:
    rows, columns = prod(shape[: dim + 1]), prod(shape[dim + 1 :])
    innermost = next((n for n in reversed(shape[dim + 1 :]) if n != 1), 1)
    wide = [tv for tv in (*segment.inputs, *(s.target for s in segment.stores))]
    wide = [tv for tv in wide if prod(tv.shape) % max(columns, 1) == 0 and tv.ndim > 1]
    lanes = MAX_ALIGNMENT // max(min((tv.dtype.itemsize for tv in wide), default=4), 1)
    aligned = [segment.layouts[tv].alignment // tv.dtype.itemsize for tv in wide]
    lanes = max(min([lanes, *aligned]), 1)
    while innermost % lanes:
        lanes //= 2
    lane = parallelize(axis(lanes), ParallelType.VECTORIZE) if lanes > 1 else None
    return GroupAxes(axis(columns // lanes), lane, axis(rows), axis(terms))


def _term(tv: TensorView, index: Index, axes: GroupAxes) -> tuple[TensorView, Index]:
    values = dict(zip(tv.logical, index, strict=True))
    values |= {a: atom(axes.term) for a in tv.domain.logical if a.is_reduction}
    edge, *_ = edges_from(tv, values)
    return edge.producer, edge.index


def _place(store: Store, shape: tuple[int, ...], axes: GroupAxes) -> Index:
    """The element of a store that goes with a sum: the same in row-major order."""
    if prod(store.value.shape) != prod(shape):
        raise Rejected(f"a result of shape {list(store.value.shape)} beside sums {list(shape)}")
    element = combine(atom(axes.row), axes.column, axes.vector.size * axes.lanes)
    return unflatten(element, store.value.shape)


def _check(
    segment: Segment,
    ends: TensorView,
    sums: Sequence[tuple[TensorView, Index]],
    terms: Sequence[tuple[TensorView, Index]],
    stores: Sequence[tuple[Store, Index]],
) -> None:
    """Groups must be in memory, sums read where they are made, and an in-place target only at the
    element that is being written."""
    if ends not in segment.leaves:
        raise Rejected("the ends of the groups are not in memory")
    own, known = dict(sums), frozenset(tv for tv, _ in sums)
    targets = {s.target for s, _ in stores if s.is_in_place}
    written = {(s.target, offset_of(segment.layouts[s.target], i)) for s, i in stores}
    for term in terms:
        needs = demand([term], segment.leaves | known)
        check_places(segment, list(known), needs)
        if term[0] in known or any(tv in known for tv, _ in needs.leaves):
            raise Rejected("a sum of groups needs another one of the same segment")
        if any(tv in targets for tv, _ in needs.leaves):
            raise Rejected(
                "an in-place target is read by other threads than the one that writes it"
            )
    for store, index in stores:
        needs = demand([(store.value, index)], segment.leaves | known)
        for tv, at in (*needs.leaves, (store.value, index)):
            if tv in own and at != own[tv]:
                raise Rejected("a sum of groups is read at another place than it belongs to")
            if tv in targets and (tv, offset_of(segment.layouts[tv], at)) not in written:
                raise Rejected("an in-place target is read at another element than it is written")
