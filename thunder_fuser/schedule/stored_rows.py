"""Where in a row a segment's results lie, as seen from the row that is being worked on.

    T5[b, h, t, d] = T0[b, t, h, d] * rsqrt(sum over d of T0[b, t, h, d]^2)

Rows are numbered as the reduction's: row is (b, t, h). What is stored in another order of its dims
is stored where it reads the sum of the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from thunder_fuser.analysis.access import Index, demand
from thunder_fuser.analysis.digits import Form, atom, substitute, unflatten
from thunder_fuser.analysis.views import indices_as_viewed
from thunder_fuser.ir.domain import axis
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.rejected import Rejected
from thunder_fuser.schedule.row_axes import RowAxes, along
from thunder_fuser.segment.segment import Segment, Store

Elements = Sequence[tuple[TensorView, Index]]


def stored_at(
    store: Store, segment: Segment, axes: RowAxes, terms: Elements, reductions: Elements
) -> Index:
    """The store's index in terms of row and column, that of a term if it has the same shape;
    `reductions` are those of the row, each at its own. Raises Rejected."""
    shape = store.value.shape
    if prod(shape) == axes.rows:
        return axes.row_index(shape)
    viewed = next(indices_as_viewed(terms, shape), None)
    if viewed is not None:
        return viewed
    for cut in range(len(shape) + 1):
        if prod(shape[:cut]) == axes.rows and prod(shape[cut:]) == axes.columns:
            inner = along(axes, shape[cut:])
            outer = _as_read(store.value, shape[:cut], inner, segment, reductions)
            return (*(outer or axes.row_index(shape[:cut])), *inner)
    if prod(shape) == axes.rows * axes.columns and not axes.is_shifted:
        return unflatten(axes.flat, shape)
    raise Rejected(f"a result of shape {list(shape)} has no rows of {axes.columns} elements")


def _as_read(
    value: TensorView,
    sizes: Sequence[int],
    inner: Index,
    segment: Segment,
    reductions: Elements,
) -> Index | None:
    """The index of the outer dims, of these `sizes`, at which the value reads a reduction of the
    row; None where it reads none, or each of its dims is not a dim of it."""
    dims = tuple(axis(n) for n in sizes)
    outer = tuple(atom(a) if a.size != 1 else Form() for a in dims)
    rows = dict(reductions)
    needs = demand([(value, (*outer, *inner))], segment.leaves | rows.keys())
    for tv, index in needs.leaves:
        if tv in rows:
            read = dict(zip(index, rows[tv], strict=True))
            known = {a: read[atom(a)] for a in dims if atom(a) in read}
            if all(a in known for a in dims if a.size != 1):
                return tuple(substitute(form, known) for form in outer)
    return None
