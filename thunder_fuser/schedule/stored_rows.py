"""Where in a row a segment's results lie, as seen from the row that is being worked on.

    T5[b, h, t, d] = T0[b, t, h, d] * rsqrt(sum over d of T0[b, t, h, d]^2)

Rows are numbered as the reduction's: row is (b, t, h). What is stored in another order of its dims
is stored where it reads the sum of the row.

    T6[k, r] = cat of mean[r], deviation[r], largest[r]    three elements of row r, at k = 0, 1, 2
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from thunder_fuser.analysis.access import Index, demand
from thunder_fuser.analysis.digits import Form, atom, shift, substitute, unflatten
from thunder_fuser.analysis.views import indices_as_viewed
from thunder_fuser.ir.domain import axis
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.rejected import Rejected
from thunder_fuser.schedule.row_axes import RowAxes, along
from thunder_fuser.segment.segment import Segment, Store

Elements = Sequence[tuple[TensorView, Index]]

FEW = 16  # elements that follow from a row, up to which its first thread stores them one by one


def stored_at(
    store: Store, segment: Segment, axes: RowAxes, terms: Elements, reductions: Elements
) -> tuple[Index, ...]:
    """The store's indices in terms of row and column, of whole rows one, that of a term if it has
    the same shape; `reductions` are those of the row, each at its own. Raises Rejected."""
    shape = store.value.shape
    if prod(shape) == axes.rows:
        return (axes.row_index(shape),)
    few = _few(store.value, segment, axes, reductions)
    return few or (_whole(store, segment, axes, terms, reductions),)


def _few(
    value: TensorView, segment: Segment, axes: RowAxes, reductions: Elements
) -> tuple[Index, ...]:
    """The indices of a few elements that follow from the reductions of each row: one in each of the
    parts of a dim, such as what was stacked along it. None where no dim has such parts, or where
    they are a whole row."""
    shape, rows = value.shape, dict(reductions)
    count, rest = divmod(prod(shape), axes.rows)
    if rest or not 1 < count <= FEW or count == axes.columns:
        return ()
    for dim, size in enumerate(shape):
        if size % count == 0:
            part = size // count
            before, own, after = shape[:dim], (part,), shape[dim + 1 :]
            index = axes.row_index((*before, *own, *after))
            places = (shift(index[dim], k * part) for k in range(count))
            found = tuple((*index[:dim], place, *index[dim + 1 :]) for place in places)
            needs = demand([(value, i) for i in found], segment.leaves | rows.keys())
            read = [(tv, i) for tv, i in needs.leaves if tv in rows]
            if read and all(i == rows[tv] for tv, i in read):
                return found
    return ()


def _whole(
    store: Store, segment: Segment, axes: RowAxes, terms: Elements, reductions: Elements
) -> Index:
    """The index of what has an element for each of a row. Raises Rejected."""
    shape = store.value.shape
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
