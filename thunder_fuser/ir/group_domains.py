"""What the ops mean that sum by an index: orders, the ends of groups, and sums over stretches.

    order[i60], ends[i9], x[i60, i24]      group_sum(x, order, ends, dim=0): [i9, i24, r60]

The reduced axis runs over all of the order, of which an element of the result takes the stretch of
its group.

    index[i4, i60], x[i4, i60]             pick_sum(x, index, dim=1, count=9): [i4, i9, r60]

It runs over a row, of which an element of the result takes those whose index is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.domain import (
    Derived,
    IterDomain,
    IterType,
    axis,
    axis_of,
    like,
    tensor_domain,
)
from thunder_fuser.ir.tensor import Attr, TensorView
from thunder_fuser.ops.groups import counted_chunks

Inputs: TypeAlias = Sequence[TensorView]
Attrs: TypeAlias = Mapping[str, Attr]

DomainRule: TypeAlias = Callable[[Inputs, Attrs], Derived]


def group_order(inputs: Inputs, attrs: Attrs) -> Derived:
    """One axis, of the operand's extent."""
    (x,) = inputs
    return Derived(tensor_domain([like(_only_axis("the operand", x))]), ((0,),))


def group_keys(inputs: Inputs, attrs: Attrs) -> Derived:
    """The axis of the order."""
    x, order = inputs
    _only_axis("the operand", x)
    return Derived(tensor_domain([like(_only_axis("order", order))]), ((None,), (0,)))


def group_ends(inputs: Inputs, attrs: Attrs) -> Derived:
    """An axis over groups."""
    (keys,) = inputs
    _only_axis("the operand", keys)
    return Derived(tensor_domain([axis_of(_count(attrs))]), ((None,),))


def group_sum(inputs: Inputs, attrs: Attrs) -> Derived:
    """The axis `dim` of x becomes that of the groups."""
    x, order, ends = inputs
    dim = _int(attrs, "dim")
    return _summed(x, order, dim, _only_axis("ends", ends), (dim,))


def group_pieces(inputs: Inputs, attrs: Attrs) -> Derived:
    """The axis `dim` of x becomes that of the whole pieces of the order."""
    x, order, keys = inputs
    size, count = _int(attrs, "size"), sc.static_int(_only_axis("order", order).extent)
    _only_axis("keys", keys)
    if count is None or size < 1:
        raise ValueError(
            f"pieces of {size} of an order of {order.extents[0]}; legal: 1 and above, of an extent "
            "that is known"
        )
    return _summed(x, order, _int(attrs, "dim"), axis(count // size), (None,))


def group_sum_of_pieces(inputs: Inputs, attrs: Attrs) -> Derived:
    """As `group_sum`."""
    *others, pieces = inputs
    made, dim = group_sum(others, attrs), _int(attrs, "dim")
    kept = tuple(None if k == dim else k for k in range(pieces.ndim))
    return Derived(made.domain, (*made.axis_maps, kept))


def pick_sum(inputs: Inputs, attrs: Attrs) -> Derived:
    """The axis `dim` of x becomes that of the places which the index tells apart."""
    x, _ = inputs
    dim, extent = _int(attrs, "dim"), _count(attrs)
    sizes = [[sc.static_int(e) for e in tv.extents] for tv in inputs]
    if len(sizes[0]) != len(sizes[1]) or any(
        n != m for n, m in zip(*sizes, strict=True) if n is not None is not m
    ):
        raise ValueError(f"an index of {sizes[1]} of an operand of {sizes[0]}; legal: the same")
    root = [axis_of(extent) if k == dim else like(a) for k, a in enumerate(x.logical)]
    root.append(IterDomain(x.extents[dim], IterType.REDUCTION))
    read = tuple(x.ndim if k == dim else k for k in range(x.ndim))
    return Derived(tensor_domain(root), (read, read))


def digit_counts(inputs: Inputs, attrs: Attrs) -> Derived:
    """An axis over the digits of each chunk."""
    (x,) = inputs
    places = sc.static_int(_only_axis("the operand", x).extent)
    low, bits, chunk = (_int(attrs, name) for name in ("low", "bits", "chunk"))
    if places is None or low < 0 or bits < 1 or chunk < 1:
        raise ValueError(
            f"chunks of {chunk} of {x.extents[0]} places, {bits} bits from {low} on; legal: 1 and "
            "above, from 0 on, of an extent that is known"
        )
    return Derived(tensor_domain([axis(counted_chunks(places, chunk) << bits)]), ((None,),))


def digit_order(inputs: Inputs, attrs: Attrs) -> Derived:
    """One axis, of the operand's extent."""
    x, *others = inputs
    for other in others:
        _only_axis("the operand", other)
    own = tensor_domain([like(_only_axis("the operand", x))])
    return Derived(own, ((0,), *((None,) for _ in others)))


def _summed(
    x: TensorView, order: TensorView, dim: int, along: IterDomain, read: tuple[int | None]
) -> Derived:
    """A sum of x in an order, with `along` in place of `dim`; `read` is the map of what tells which
    elements of the order are summed."""
    places = _only_axis("order", order).extent
    sizes = [sc.static_int(e) for e in (x.extents[dim], places)]
    if None not in sizes and sizes[0] != sizes[1]:
        raise ValueError(f"dim {dim} of x has {sizes[0]} elements, the order has {sizes[1]}")
    root = [like(along if k == dim else a) for k, a in enumerate(x.logical)]
    root.append(IterDomain(places, IterType.REDUCTION))
    kept = tuple(None if k == dim else k for k in range(x.ndim))
    return Derived(tensor_domain(root), (kept, (x.ndim,), read))


def _count(attrs: Attrs) -> sc.Scalar:
    """Of what an index tells apart."""
    count = attrs["count"]
    assert isinstance(count, tuple)
    (extent,) = count
    assert isinstance(extent, sc.Constant | sc.Symbol | sc.ScalarExpr)
    size = sc.static_int(extent)
    if size is not None and size < 0:
        raise ValueError(f"the count of groups is {size}; legal: 0 and above")
    return extent


def _only_axis(what: str, tv: TensorView) -> IterDomain:
    if tv.ndim != 1:
        raise ValueError(f"{what} has rank {tv.ndim}; legal: 1")
    return tv.logical[0]


def _int(attrs: Attrs, name: str) -> int:
    value = attrs[name]
    assert isinstance(value, int)
    return value


GROUP_DOMAINS: dict[str, DomainRule] = {
    f.__name__: f
    for f in (
        group_order,
        group_keys,
        group_ends,
        group_sum,
        group_pieces,
        group_sum_of_pieces,
        pick_sum,
        digit_counts,
        digit_order,
    )
}
