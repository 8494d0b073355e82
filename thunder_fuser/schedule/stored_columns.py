"""Where an element of the plane is stored, as seen from the column and the row worked on.

    T1[c] = sum(T0[r, c]);  T3[c, r] = permute(T0[r, c] - T1[c])       T3 at (c, r)

A square has the same shape turned, so a shape does not tell: the place is that for which least is
read that the sums of the column do not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thunder_fuser.analysis.access import Index
from thunder_fuser.analysis.digits import unflatten
from thunder_fuser.analysis.layout import linear
from thunder_fuser.analysis.views import indices_as_viewed
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Family
from thunder_fuser.schedule.needs import needs_of
from thunder_fuser.schedule.phases import Element
from thunder_fuser.segment.segment import Segment, Store


def element_of(
    store: Store, segment: Segment, terms: Sequence[Element], reductions: Sequence[Element]
) -> Index:
    """The element of a full store that goes with a term: one it is a view of, also through what is
    computed element by element, permuted and reshaped; else the same in row-major order.
    `reductions` are those of the column, each at its own."""
    value = store.value
    found = list(dict.fromkeys(_places(value, terms)))
    if not found:
        term, index = terms[0]
        return unflatten(linear(term.shape, index), value.shape)
    if len(found) == 1:
        return found[0]
    own = [tv for tv, _ in reductions]

    def read(place: Index) -> int:
        """Elements of tensors in memory and of reductions."""
        return len({*reductions, *needs_of(segment, own, [*terms, (value, place)]).leaves})

    return min(found, key=read)


def _places(value: TensorView, terms: Sequence[Element]) -> Iterator[Index]:
    """The indices of a value, each met at one of the indices of terms, or of what they are views
    of."""
    views = list[TensorView]()
    yield from indices_as_viewed(terms, value.shape)
    while operands := _alike(value):
        operand = next((tv for tv in operands if tv.definition is not None), operands[0])
        if _is_view(value):
            views.append(value)
            for index in indices_as_viewed(terms, operand.shape):
                yield _behind(views, index)
        value = operand


def _behind(views: Sequence[TensorView], index: Index) -> Index:
    """Where the first of `views`, each of the next one and the last of what is at `index`, is."""
    for view in reversed(views):
        made = view.expr
        if made.op.name == "permute":
            index = tuple(index[d] for d in made.dims())
        else:
            index = unflatten(linear(made.tensors[0].shape, index), view.shape)
    return index


def _is_view(value: TensorView) -> bool:
    """True for the elements of another tensor in another shape or order."""
    made = value.definition
    return made is not None and made.op.name in ("permute", "reshape")


def _alike(value: TensorView) -> list[TensorView]:
    """What a value is computed from element by element, or is a view of."""
    made = value.definition
    if made is not None and (_is_view(value) or made.op.name == "stride_order"):
        return list(made.tensors)
    is_pointwise = made is not None and made.op.family is Family.POINTWISE
    return [tv for tv in made.tensors if tv.shape == value.shape] if made and is_pointwise else []
