"""Which tensors are views: the same storage seen through other sizes, strides and an offset.

    T1[i4, i6] = permute(T0[i6, i4])      =>     T1 = as_strided(T0, (4, 6), (1, 4), 0)

Every metadata op between a tensor and the storage it reads is composed into one index map; the
element offset is then a digit form in the tensor's own axes. It is a view exactly where that form
is `offset + sum(stride * axis)` over whole axes with strides that are not negative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from thunder_fuser.analysis.access import Element, Index
from thunder_fuser.analysis.digits import Form, atom
from thunder_fuser.analysis.index_map import Window, edges
from thunder_fuser.analysis.layout import Layout, dense_strides, numbered, offset_of
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Family


@dataclass(frozen=True)
class View:
    """`as_strided(root, shape, strides, root's offset + offset)`, in elements."""

    root: TensorView
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class Chain:
    """The storage behind a chain of metadata ops, and the index into it."""

    root: TensorView
    index: tuple[Form, ...]


def follow(tv: TensorView, is_storage: Callable[[TensorView], bool]) -> Chain | None:
    """Walk back through metadata ops until `is_storage` or an op that computes. None where a window
    (a pad with a fill) lies on the way."""
    index = tuple(atom(a) for a in tv.logical)
    current = tv
    while not is_storage(current) and is_metadata(current):
        (edge,) = edges(current, index)
        if edge.windows:
            return None
        current, index = edge.producer, edge.index
    return Chain(current, index)


def is_metadata(tv: TensorView) -> bool:
    """True where `tv` is defined by an op that only moves indices, or is a stop point."""
    expr = tv.definition
    return expr is not None and (expr.op.family in (Family.VIEW, Family.PAD) or is_stop(tv))


def is_stop(tv: TensorView) -> bool:
    """True for a stop point: the same elements, read by another segment."""
    return tv.is_of("segment_set")


def without_padding(element: Element, size: int) -> Element:
    """The element of what has only `size` elements, where `element` is one of a view of that and of
    others that were added."""
    *_, (tv, index, _) = _padding(element, size)
    return tv, index


def windows_of_padding(element: Element, size: int) -> tuple[Window, ...]:
    """What tells such an element from others."""
    return tuple(w for _, _, windows in _padding(element, size) for w in windows)


def _padding(element: Element, size: int) -> Iterator[tuple[TensorView, Index, tuple[Window, ...]]]:
    tv, index = element
    yield tv, index, ()
    while prod(tv.shape) != size and is_metadata(tv):
        (edge,) = edges(tv, index)
        tv, index = edge.producer, edge.index
        yield tv, index, edge.windows


def elements_as_viewed(element: Element) -> Iterator[Element]:
    """The element and, through views of as many elements without windows, what it is in the tensors
    that these are of."""
    yield element
    tv, index = element
    while is_metadata(tv):
        (edge,) = edges(tv, index)
        if edge.windows or prod(edge.producer.shape) != prod(tv.shape):
            return
        tv, index = edge.producer, edge.index
        yield tv, index


def indices_as_viewed(elements: Iterable[Element], shape: tuple[int, ...]) -> Iterator[Index]:
    """The indices of elements, and of what they are behind views, in tensors of this shape."""
    return (index for e in elements for tv, index in elements_as_viewed(e) if tv.shape == shape)


def is_same_order(producer: TensorView, consumer: TensorView) -> bool:
    """True for a view of its producer that has the same elements in the same row-major order."""
    chain = follow(consumer, lambda tv: tv is producer)
    if chain is None or chain.root is not producer:
        return False
    view = view_of(consumer, chain, numbered(producer))
    is_whole = prod(consumer.shape) == prod(producer.shape)
    return is_whole and view == View(producer, consumer.shape, dense_strides(consumer.shape), 0)


def view_of(tv: TensorView, chain: Chain, layout: Layout) -> View | None:
    """`tv` as a view of the chain's root, which lies in memory as `layout`; None if no strides
    express it."""
    offset = offset_of(layout, chain.index)
    strides = {a: 0 for a in tv.logical}
    for weight, digit in offset.terms:
        axis = digit.base
        if axis not in strides or not digit.is_whole or weight < 0:
            return None
        strides[axis] = weight
    filled = _fill_units(tv.shape, [strides[a] for a in tv.logical])
    first = 0 if 0 in tv.shape else offset.constant  # a flip of nothing would begin at -1
    return View(chain.root, tv.shape, filled, first)


def storage_of(tv: TensorView, views: Mapping[TensorView, View]) -> TensorView:
    """The tensor whose storage `tv` lies in."""
    while tv in views:
        tv = views[tv].root
    return tv


def _fill_units(shape: tuple[int, ...], strides: list[int]) -> tuple[int, ...]:
    """Give unit dims the stride a dense tensor would have there; it is never used."""
    step = 1
    for dim in reversed(range(len(shape))):
        if shape[dim] == 1:
            strides[dim] = step
        step = max(step, strides[dim] * shape[dim])
    return tuple(strides)
