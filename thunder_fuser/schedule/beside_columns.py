"""Sums over all columns beside columns that are kept: a block walks a group of these.

    T1[c] = sum(T0[r, c]);  T2[g, r] = sum of T0[r, c] - T1[c] over the columns c of group g

Each thread adds its columns of all turns to a sum per row that it has; behind the last turn the
threads side by side bring theirs together. What lies in memory is read once for both kinds of sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from thunder_fuser.analysis.access import Element, Index
from thunder_fuser.analysis.digits import atom, combine, divmod_form, unflatten
from thunder_fuser.analysis.index_map import term_at
from thunder_fuser.analysis.reductions import column_shape, is_scan, plane_of
from thunder_fuser.analysis.views import without_padding
from thunder_fuser.ir.domain import IterDomain, axis
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.column_axes import ColumnAxes
from thunder_fuser.schedule.odd_columns import OddAxes
from thunder_fuser.schedule.rejected import Rejected
from thunder_fuser.segment.segment import Segment, Store
from thunder_fuser.target import WARP


@dataclass(frozen=True, eq=False)
class Beside:
    """Sums over the columns of each `group`, their results at (group, row), and their terms at
    (row, column). Nothing but their stores follows from them. Groups, so many `parts` of each
    sample, have so many neighbouring `vectors` of columns each in turn."""

    group: IterDomain
    parts: int
    vectors: int
    reductions: tuple[Element, ...]
    terms: tuple[Element, ...]
    stores: tuple[tuple[Store, Index], ...]


def beside(segment: Segment, sums: Sequence[TensorView], axes: ColumnAxes) -> Beside:
    """Of `sums` over the columns. Raises Rejected."""
    rows, columns = axes.row.size, axes.columns
    groups = {(prod(tv.shape), _parts(tv), *reduced_sizes(tv)) for tv in sums}
    results, parts, *dealt = groups.pop()
    if groups or len(dealt) != 2 or results % rows or dealt[1] % axes.lanes:
        raise Rejected("sums over other columns than a block walks")
    group, (_, run) = axis(results // rows), dealt
    odd = axes if isinstance(axes, OddAxes) else None
    if odd is not None and run != odd.stored:
        raise Rejected("sums over other columns than a block walks")
    stretch, place = divmod_form(axes.column if odd is None else odd.padded, run)
    sample, inside = divmod_form(stretch, dealt[0] * parts)
    turn, part = divmod_form(inside, parts)
    number = combine(sample, part, parts)
    reductions, terms, stores = [], [], []
    for tv in sums:
        if plane_of(tv) != (columns, rows) or column_shape(tv) is None or is_scan(tv):
            raise Rejected("sums over other columns than a block walks")
        if tv.expr.op.state_size != 1 or tv.dtype.is_complex:
            raise Rejected("a sum of several values over the columns that a block walks")
        index = unflatten(combine(number, atom(axes.row), rows), tv.shape)
        term = without_padding(term_at(tv, index, (turn, place)), rows * columns)
        if prod(term[0].shape) != rows * columns:
            raise Rejected("sums over other columns than a block walks")
        terms.append(term)
        own = unflatten(combine(atom(group), atom(axes.row), rows), tv.shape)
        reductions.append((tv, own))
        found = [s for s in segment.stores if s.value is tv]
        if not found:
            raise Rejected("a sum over columns is read before all blocks are done")
        stores += [(s, own) for s in found]
    vectors = run // axes.lanes if odd is None else WARP
    return Beside(group, parts, vectors, tuple(reductions), tuple(terms), tuple(stores))


def are_of_samples(sums: Sequence[TensorView], rows: int) -> bool:
    """True for sums over the columns of each of several samples, down to so many rows."""
    return any(_parts(tv) * rows < prod(tv.shape) for tv in sums)


def reduced_sizes(tv: TensorView) -> list[int]:
    """Of the reduced axes."""
    return [a.size for a in tv.domain.logical if a.is_reduction]


def _parts(tv: TensorView) -> int:
    """Of each sample: the axis before those that are reduced; 1 also for a sum by an index, which
    has none."""
    axes = tv.domain.logical
    first = next((k for k, a in enumerate(axes) if a.is_reduction), 0)
    return axes[first - 1].size if first else 1
