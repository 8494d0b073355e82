"""Reductions over all rows of a plane, of one term per row.

    T1[r] = sum(T0[r, :]);  T2 = sum(T1)     T2 is a total of the rows that T1 sums
    T3 = sum(T4[r])                          so is T3: it needs none of them, but has as many terms

A kernel that walks the rows meets these terms one by one, so it can combine them behind its rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import prod

from thunder_fuser.analysis.access import Element, demand
from thunder_fuser.analysis.digits import Form, atom, unflatten
from thunder_fuser.analysis.index_map import term_at
from thunder_fuser.analysis.reductions import is_long, is_reduction, is_scan, row_shape
from thunder_fuser.ir.domain import axis
from thunder_fuser.ir.tensor import TensorView

MAX_ROWS = 1 << 22  # in bundles (`kernel/split_ir.py`), each of which a warp reads in a few us


def rows_of(tv: TensorView) -> int | None:
    """The rows of a plane of several that `tv` reduces or scans; None for any other tensor."""
    rows, _ = (row_shape(tv) if is_long(tv) else None) or (0, 0)
    return rows if rows > 1 else None


def is_total(tv: TensorView, rows: int) -> bool:
    """True for a reduction of one term per row to one element, of rows that are not too many."""
    if not is_reduction(tv):
        return False
    terms = prod(a.size for a in tv.domain.logical)
    return prod(tv.shape) == 1 and 0 < terms == rows <= MAX_ROWS and not tv.dtype.is_complex


def totals_of(
    tensors: Iterable[TensorView], leaves: Collection[TensorView]
) -> tuple[TensorView, ...]:
    """The totals among `tensors` of one kernel, producers first, that reads `leaves`. A short one
    is none unless it needs a row's result: it is summed wherever it is read."""
    computed = [tv for tv in tensors if tv not in leaves and tv.definition is not None]
    found: dict[TensorView, None] = {}
    of_rows: set[TensorView] = set()
    planes = {rows for tv in computed if (rows := rows_of(tv)) is not None}
    if len(planes) != 1:
        return ()
    (rows,) = planes
    for tv in computed:
        needs_row = not of_rows.isdisjoint(tv.expr.tensors)
        if is_total(tv, rows) and (needs_row or is_long(tv)):
            found[tv] = None
        elif needs_row or is_long(tv):
            of_rows.add(tv)
    return tuple(found)


def term_of_total(total: TensorView, row: Form) -> Element:
    """The element that a total combines at a row."""
    sizes = [a.size for a in total.domain.logical if a.is_reduction]
    return term_at(total, (Form(),) * total.ndim, unflatten(row, sizes))


def reads_own_rows(
    total: TensorView, reductions: Collection[TensorView], leaves: Collection[TensorView]
) -> bool:
    """True where each term needs, of `reductions` along rows, the results of its own row only, and
    no index that they make. What is in `leaves` is known before."""
    row = atom(axis(prod(a.size for a in total.domain.logical)))
    ends = {*reductions, *leaves}
    needs = demand([term_of_total(total, row)], ends)
    indices = demand([(place.tensor, place.index) for place in needs.places], ends)
    return not any(tv in reductions for tv, _ in indices.leaves) and all(
        not is_scan(tv) and rows_of(tv) is not None and index == unflatten(row, tv.shape)
        for tv, index in needs.leaves
        if tv in reductions
    )
