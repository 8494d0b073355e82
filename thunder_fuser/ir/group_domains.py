"""What the ops mean that sum by an index: orders, the ends of groups, and sums over stretches.

    order[i60], ends[i9], x[i60, i24]      group_sum(x, order, ends, dim=0): [i9, i24, r60]

The reduced axis runs over all of the order, of which an element of the result takes the stretch of
its group. Each function returns the consumer's domain and the axis map of each tensor input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.domain import IterDomain, IterType, TensorDomain, axis, like, tensor_domain
from thunder_fuser.ir.tensor import Attr, TensorView
from thunder_fuser.ops.groups import counted_chunks

Inputs: TypeAlias = Sequence[TensorView]
Attrs: TypeAlias = Mapping[str, Attr]
Maps: TypeAlias = "tuple[tuple[int | None, ...], ...]"
GroupDomain: TypeAlias = "Callable[[Inputs, Attrs], tuple[TensorDomain, Maps]]"


def group_order(inputs: Inputs, attrs: Attrs) -> tuple[TensorDomain, Maps]:
    """One axis, of the operand's extent."""
    (x,) = inputs
    return tensor_domain([like(_only_axis("the operand", x))]), ((0,),)


def group_keys(inputs: Inputs, attrs: Attrs) -> tuple[TensorDomain, Maps]:
    """The axis of the order."""
    x, order = inputs
    _only_axis("the operand", x)
    return tensor_domain([like(_only_axis("order", order))]), ((None,), (0,))


def group_ends(inputs: Inputs, attrs: Attrs) -> tuple[TensorDomain, Maps]:
    """An axis over groups."""
    (keys,) = inputs
    _only_axis("the operand", keys)
    count = attrs["count"]
    assert isinstance(count, tuple)
    (extent,) = count
    assert isinstance(extent, sc.Constant | sc.Symbol | sc.ScalarExpr)
    size = sc.static_int(extent)
    if size is not None and size < 0:
        raise ValueError(f"the count of groups is {size}; legal: 0 and above")
    kind = IterType.BROADCAST if sc.is_constant(extent, 1) else IterType.ITERATION
    return tensor_domain([axis(extent, kind)]), ((None,),)


def group_sum(inputs: Inputs, attrs: Attrs) -> tuple[TensorDomain, Maps]:
    """The axis `dim` of x becomes that of the groups."""
    x, order, ends = inputs
    dim = _int(attrs, "dim")
    domain, maps = _summed(x, order, dim, _only_axis("ends", ends))
    return domain, (*maps, (dim,))


def group_pieces(inputs: Inputs, attrs: Attrs) -> tuple[TensorDomain, Maps]:
    """The axis `dim` of x becomes that of the whole pieces of the order."""
    x, order, keys = inputs
    size, count = _int(attrs, "size"), sc.static_int(_only_axis("order", order).extent)
    _only_axis("keys", keys)
    if count is None or size < 1:
        raise ValueError(
            f"pieces of {size} of an order of {order.extents[0]}; legal: 1 and above, of an extent "
            "that is known"
        )
    domain, maps = _summed(x, order, _int(attrs, "dim"), axis(count // size))
    return domain, (*maps, (None,))


def group_sum_of_pieces(inputs: Inputs, attrs: Attrs) -> tuple[TensorDomain, Maps]:
    """As `group_sum`."""
    *others, pieces = inputs
    domain, maps = group_sum(others, attrs)
    dim = _int(attrs, "dim")
    return domain, (*maps, tuple(None if k == dim else k for k in range(pieces.ndim)))


def digit_counts(inputs: Inputs, attrs: Attrs) -> tuple[TensorDomain, Maps]:
    """An axis over the digits of each chunk."""
    (x,) = inputs
    places = sc.static_int(_only_axis("the operand", x).extent)
    low, bits, chunk = (_int(attrs, name) for name in ("low", "bits", "chunk"))
    if places is None or low < 0 or bits < 1 or chunk < 1:
        raise ValueError(
            f"chunks of {chunk} of {x.extents[0]} places, {bits} bits from {low} on; legal: 1 and "
            "above, from 0 on, of an extent that is known"
        )
    return tensor_domain([axis(counted_chunks(places, chunk) << bits)]), ((None,),)


def digit_order(inputs: Inputs, attrs: Attrs) -> tuple[TensorDomain, Maps]:
    """One axis, of the operand's extent."""
    x, *others = inputs
    for other in others:
        _only_axis("the operand", other)
    own = tensor_domain([like(_only_axis("the operand", x))])
    return own, ((0,), *((None,) for _ in others))


def _summed(
    x: TensorView, order: TensorView, dim: int, along: IterDomain
) -> tuple[TensorDomain, Maps]:
    """The domain of a sum of x in an order with `along` in place of `dim`, and the maps of both."""
    places = _only_axis("order", order).extent
    sizes = [sc.static_int(e) for e in (x.extents[dim], places)]
    if None not in sizes and sizes[0] != sizes[1]:
        raise ValueError(f"dim {dim} of x has {sizes[0]} elements, the order has {sizes[1]}")
    root = [like(along if k == dim else a) for k, a in enumerate(x.logical)]
    root.append(IterDomain(places, IterType.REDUCTION))
    return tensor_domain(root), (tuple(None if k == dim else k for k in range(x.ndim)), (x.ndim,))


def _only_axis(what: str, tv: TensorView) -> IterDomain:
    if tv.ndim != 1:
        raise ValueError(f"{what} has rank {tv.ndim}; legal: 1")
    return tv.logical[0]


def _int(attrs: Attrs, name: str) -> int:
    value = attrs[name]
    assert isinstance(value, int)
    return value


GROUP_DOMAINS: dict[str, GroupDomain] = {
    f.__name__: f
    for f in (
        group_order,
        group_keys,
        group_ends,
        group_sum,
        group_pieces,
        group_sum_of_pieces,
        digit_counts,
        digit_order,
    )
}
