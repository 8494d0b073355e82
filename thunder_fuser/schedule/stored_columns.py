"""Where an element of the plane is stored, as seen from the column and the row worked on.

    T1[c] = sum(T0[r, c]);  T3[c, r] = permute(T0[r, c] - T1[c])       T3 at (c, r)

A square has the same shape turned, so a shape does not tell: the place is that for which least is
read that the sums of the column do not read.

    T4[r, 2 * c] = cat of T2[r, c], T3[r, c]    two elements for each of the plane, c apart
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from math import prod

from thunder_fuser.analysis.access import Element, Index
from thunder_fuser.analysis.digits import Form, shift, unflatten
from thunder_fuser.analysis.layout import linear
from thunder_fuser.analysis.views import indices_as_viewed
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Family
from thunder_fuser.schedule.needs import needs_of
from thunder_fuser.segment.segment import Segment, Store

FEW = 4  # elements of a result for each of the plane, at most


def elements_of(
    store: Store,
    segment: Segment,
    size: int,
    terms: Sequence[Element],
    reductions: Sequence[Element],
) -> tuple[Index, ...]:
    """The elements of a store that go with a term of a plane of that `size`: one, or one of each of
    the parts of a dim, such as the gradients of both halves of what was split; none where it has
    others."""
    if prod(store.value.shape) == size:
        return (element_of(store, segment, terms, reductions),)
    (term, index), *_ = terms
    read = needs_of(segment, segment.long, terms).leaves
    return parts_of(store, segment, linear(term.shape, index), size, read)


def parts_of(
    store: Store, segment: Segment, flat: Form, size: int, known: Container[Element]
) -> tuple[Index, ...]:
    """The elements, one of each of the parts of a dim that lie side by side, that go with place
    `flat` of `size`, if each reads some of what is `known` there: those of the dim for which least
    else is read."""
    shape, found = store.value.shape, dict[tuple[Index, ...], int]()
    count, rest = divmod(prod(shape), size)
    if rest or not 1 < count <= FEW or store.is_in_place:
        return ()
    for dim, extent in enumerate(shape):
        sizes = (*shape[:dim], extent // count, *shape[dim + 1 :])
        if extent % count == 0 and prod(sizes[dim:]) > 1:
            index = unflatten(flat, sizes)
            places = (shift(index[dim], k * sizes[dim]) for k in range(count))
            parts = tuple((*index[:dim], place, *index[dim + 1 :]) for place in places)
            reads = [needs_of(segment, segment.long, [(store.value, i)]).leaves for i in parts]
            others = [[e for e in read if e not in known] for read in reads]
            if all(len(o) < len(read) for o, read in zip(others, reads, strict=True)):
                found[parts] = sum(map(len, others))
    return min(found, key=found.__getitem__, default=())


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
