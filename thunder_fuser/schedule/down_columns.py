"""Sums down the columns of rows that blocks walk: a term in each turn, and what is stored of them.

    T1[group, column]    sums T0[row, column], in each turn the row which the sum deals to the group

Nothing else may read them before all blocks are done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from thunder_fuser.analysis.access import Element, Index, demand
from thunder_fuser.analysis.counts import Counted, counted
from thunder_fuser.analysis.digits import combine, unflatten
from thunder_fuser.analysis.index_map import Window, term_at
from thunder_fuser.analysis.reductions import is_long
from thunder_fuser.analysis.views import windows_of_padding, without_padding
from thunder_fuser.ir.fusion import topological
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.rejected import Rejected
from thunder_fuser.schedule.row_axes import RowAxes, along
from thunder_fuser.segment.segment import Segment, Store

MAX_COUNTED = 8192  # columns of a block, for which it has 4 bytes of shared memory each
MIN_SHARED = 40_960  # columns of rows of which a block of a cluster has no more


@dataclass(frozen=True, eq=False)
class Columns:
    """Sums down the columns of a block's rows: per reduction its term at (row, column), and the
    stores of what follows from them, at (group, column). Of those that count what each row has one
    of, `counts` has that."""

    reductions: tuple[Element, ...] = ()
    terms: tuple[Element, ...] = ()
    stores: tuple[tuple[Store, Index], ...] = ()
    counts: Mapping[TensorView, Counted] = field(default_factory=dict)

    @property
    def read(self) -> tuple[Element, ...]:
        """What a turn needs of its row: terms, and values that are counted."""
        both = zip(self.reductions, self.terms, strict=True)
        counts = self.counts
        return tuple(counts[tv].value if tv in counts else term for (tv, _), term in both)

    @property
    def summed(self) -> int:
        """How many of them a thread has in registers."""
        return len(self.reductions) - len(self.counts)


def columns_of(segment: Segment, down: Sequence[TensorView], axes: RowAxes) -> Columns:
    """Column sums whose results are only stored, as they are when all rows have been walked.
    Raises Rejected."""
    reductions, terms, stores, counts = [], [], [], {}
    for tv in down:
        if not tv.expr.op.is_finished:
            raise Rejected("a column sum of more than one number")
        index = _of_group(tv, axes)
        reduced = [a.size for a in tv.domain.logical if a.is_reduction]
        reductions.append((tv, index))
        terms.append(_of_plane(term_at(tv, index, unflatten(axes.walked, reduced)), axes))
        found = [(s, i) for s in segment.stores if (i := _made_of(tv, s, segment, axes))]
        if not found:
            raise Rejected("a column sum is read before all blocks are done")
        stores += found
        if (count := _counted(tv, terms[-1], segment, axes)) is not None:
            counts[tv] = count
    return Columns(tuple(reductions), tuple(terms), tuple(stores), counts)


def _counted(tv: TensorView, term: Element, segment: Segment, axes: RowAxes) -> Counted | None:
    """What a sum counts, in shared memory that all rows of a block have for it."""
    are_few = axes.columns <= MAX_COUNTED or axes.columns >= MIN_SHARED
    if not (tv.is_of("sum") and are_few) or axes.keeps_sides:
        return None
    walked = {axis for axis in (axes.vector, axes.lane) if axis is not None}
    leaves = segment.leaves | {t for t in segment.tensors if is_long(t)}
    return counted(term, leaves, walked)


def _of_group(tv: TensorView, axes: RowAxes) -> Index:
    """The index of what has an element per group of rows, or side of one, and column, in dims of
    their own or in one."""
    kept, sums = list(tv.shape), 1
    if tv.shape == (axes.sums * axes.columns,) and axes.sums > 1:
        return (combine(axes.summed, axes.column, axes.columns),)
    while kept and sums < axes.sums:
        sums *= kept.pop(0)
    if sums != axes.sums or prod(kept) != axes.columns:
        raise Rejected("a column sum over other rows than a block walks")
    return (*unflatten(axes.summed, tv.shape[: tv.ndim - len(kept)]), *along(axes, kept))


def _made_of(tv: TensorView, store: Store, segment: Segment, axes: RowAxes) -> Index | None:
    """The index of a store of a column sum, or of what follows from those of several groups alone,
    such as their cast."""
    is_it = store.value is tv
    if prod(store.value.shape) != prod(tv.shape) or (axes.group.size == 1 and not is_it):
        return None
    if not _follows_alone(store.value, tv, segment):
        return None
    index = _of_group(store.value, axes)
    leaves = demand([(store.value, index)], {tv}).leaves
    return index if leaves.keys() == {(tv, _of_group(tv, axes))} else None


def _follows_alone(value: TensorView, tv: TensorView, segment: Segment) -> bool:
    """True for `tv`, and for what is made of it and of nothing else in memory or long."""
    is_it = False
    for made in topological([value], segment.leaves | {tv}):
        if made is not tv and (made in segment.leaves or is_long(made)):
            return False
        is_it |= made is tv
    return is_it


def sample_of(tv: TensorView, axes: RowAxes) -> Window | None:
    """Which row of its sample the term of a column sum is, of how many, where rows were added to
    each sample; None where that was done to none, or to all rows or images together."""
    if not axes.is_uneven or axes.keeps_sides:
        return None
    reduced = [a.size for a in tv.domain.logical if a.is_reduction]
    term = term_at(tv, _of_group(tv, axes), unflatten(axes.walked, reduced))
    found = windows_of_padding(term, axes.rows * axes.columns)
    return next((window for window in found if window.extent != axes.rows), None)


def _of_plane(term: Element, axes: RowAxes) -> Element:
    """The term as an element of the plane, where rows were added to it that no block walks."""
    return without_padding(term, axes.rows * axes.columns) if axes.is_uneven else term


def turns_of(down: Sequence[TensorView]) -> int:
    """Rows that one block walks: the terms of every column sum. Raises Rejected."""
    terms = {prod(a.size for a in tv.domain.logical if a.is_reduction) for tv in down}
    if len(terms) > 1:
        raise Rejected(f"column sums of {sorted(terms)} terms")
    return terms.pop() if terms else 1
