"""Sums over the columns of a sample, which the blocks that keep these columns know.

T1[s, c] = sum(T0[s, r, c]);  T2[s] = sum(T1[s, c]);  T3[s, r, c] = ... T1[s, c] ... T2[s]

phase 0    T1 of the thread's vector of columns
phase 1    T2: those of all threads side by side, and of the blocks abreast in a cluster
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from thunder_fuser.analysis.access import Element, Index
from thunder_fuser.analysis.digits import Form, divmod_form, unflatten
from thunder_fuser.analysis.reductions import met_rows
from thunder_fuser.schedule.column_axes import ColumnAxes
from thunder_fuser.schedule.rejected import Rejected
from thunder_fuser.segment.segment import Segment, Store


def columns_met(segment: Segment) -> int | None:
    """How many columns meet in a segment, if any do. Raises Rejected."""
    counts = {met_rows(tv) for tv in segment.met}
    if len(counts) > 1:
        raise Rejected("columns that meet with other ones")
    return counts.pop() if counts else None


def vectors_met(segment: Segment, axes: ColumnAxes) -> int | None:
    """The same in vectors. Raises Rejected where one has columns of two samples."""
    count = columns_met(segment)
    if count is not None and count % axes.lanes:
        raise Rejected("vectors of columns of two samples")
    return None if count is None else count // axes.lanes


def with_met(
    segment: Segment, axes: ColumnAxes, reductions: Sequence[Element], terms: Sequence[Element]
) -> tuple[list[Element], list[Element]]:
    """Those of columns and those of samples, each with its term at the thread's own column, in the
    order in which they are computed."""
    found = dict(zip(reductions, terms, strict=True))
    for tv in segment.met:
        (term,) = tv.expr.tensors
        own = unflatten(_sample(segment, axes), tv.shape)
        found[tv, own] = term, unflatten(axes.column, term.shape)
    places = {tv: place for place, tv in enumerate(segment.tensors)}
    ordered = sorted(found, key=lambda result: places[result[0]])
    return ordered, [found[result] for result in ordered]


def of_sample(store: Store, segment: Segment, axes: ColumnAxes) -> Index | None:
    """The index of what is stored once a sample, where columns meet; None for anything else."""
    count = columns_met(segment)
    if count is None or prod(store.value.shape) * count != axes.columns:
        return None
    return unflatten(_sample(segment, axes), store.value.shape)


def _sample(segment: Segment, axes: ColumnAxes) -> Form:
    """Which sample a column is of."""
    count = columns_met(segment)
    assert count is not None
    return divmod_form(axes.column, count)[0]
