"""Walk tensors in the order in which they lie in memory.

    T0: bf16[8, 64, 28, 28], channels innermost
    T1 = relu(T0)                      =>   T1 lies like T0
    T2 = sum(T1, dims=[0, 2, 3])       =>   T2 = sum(permute(T1, dims=[0, 2, 3, 1]), dims=[0, 1, 2])

What is computed element by element lies like its operands where those agree, as in torch, also of
a permutation whose channels lie innermost, which torch's functions keep so: the batch norm of an
image that a linear layer made, and its gradient, turn nothing. Not of a few colours: a kernel that
turns those has vectors, and none that follows them. What other permutations lie like
decides nothing, since a product of matrices copies what it gets so. A
reduction whose operand lies in another order than its dims are numbered becomes one of a permuted
operand: then its kept or its reduced axes are innermost, which templates look at.

    T2 = mul(T0, T1);  T3 = sum(T2, dims=[0, 2, 3])
        =>   T4 = segment_set(T1), like T0;  T2 = mul(T0, T4)

Terms of planes that lie in two orders have no vectors in one of them, whichever way a reduction
walks; unless a block keeps its columns, or rows it has beside them, and reads them turned, the
smaller planes are copied. All sums read the copy then: none is made where a copy is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from thunder_fuser.analysis.kept_rows import are_kept, are_short
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.analysis.reductions import (
    is_long,
    is_long_reduction,
    is_reduction,
    terms_and_results,
    terms_of,
)
from thunder_fuser.ir.build import again, apply, call
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.rewrite import lies_in, lying, rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.ops import Family
from thunder_fuser.target import Target

Order = tuple[int, ...]  # dims, outermost in memory first
CHANNELS_LAST = ((0, 2, 3, 1), (0, 2, 3, 4, 1))  # torch's memory formats of images and volumes
MIN_TURNED = 8  # elements side by side that are worth a copy, or being followed: fewer are read
# again from caches


def follow_memory(fusion: Fusion, layouts: Mapping[TensorView, Layout], target: Target) -> Fusion:
    """`fusion`, whose inputs lie as `layouts`, in their order. Inputs stay the same tensors."""
    given = [tv for tv in fusion.inputs if isinstance(tv, TensorView)]
    found = {tv: order for tv in given if (order := _order_of(layouts[tv])) is not None}
    if not any(map(_is_permutation, fusion.tensors)) and all(
        order == tuple(range(tv.ndim)) for tv, order in found.items()
    ):
        return fusion
    walk = _Walk({**found})
    made = rewrite(fusion, walk.rule)
    copies = _copies(fusion, walk, target)
    if not copies:
        return made
    needs = frozenset(topological([*walk.mixed, *filter(is_long_reduction, fusion.tensors)]))

    def copied(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        taken = tuple(copies.get(v, v) if isinstance(v, TensorView) else v for v in inputs)
        return _rebuilt(tv, taken) if tv in needs else None

    orders = {copy: lies_in(copy) for copy in copies.values()}
    return rewrite(rewrite(fusion, copied), _Walk({**found, **orders}).rule)


def _copies(fusion: Fusion, walk: _Walk, target: Target) -> dict[TensorView, TensorView]:
    """Planes of long reductions whose terms are mixed, and their copies in the order of the larger
    ones. None where blocks keep such columns, or the rows that these are beside."""
    found = dict[TensorView, TensorView]()
    reductions = list(filter(is_reduction, fusion.tensors))
    sizes = set(map(terms_and_results, reductions))
    for tv in reductions:
        terms, (count, results) = terms_of(tv), terms_and_results(tv)
        if terms not in walk.mixed or not is_long(tv):
            continue
        is_beside = (results, count) in sizes and are_short(fusion, results, count)
        if is_beside or are_kept(fusion, count, results, target.max_cluster):
            return {}
        sides = dict[Order, list[TensorView]]()
        for plane in topological([terms]):
            order = walk.orders.get(plane)
            is_read = plane.definition is None or _is_permutation(plane)
            is_whole = plane.shape == terms.shape
            if is_read and is_whole and order and plane.shape[order[-1]] >= MIN_TURNED:
                sides.setdefault(order, []).append(plane)
        if not sides:
            continue
        most = max(sides, key=lambda order: sum(t.dtype.itemsize for t in sides[order]))
        for order, planes in sides.items():
            if order != most:
                found |= {t: _copy(t, most) for t in planes if t not in found}
    return found


def _copy(plane: TensorView, order: Order) -> TensorView:
    """`plane` written in that order for those that read it."""
    return lying(call("segment_set", lying(call("copy", plane), order)), order)


def _order_of(layout: Layout) -> Order | None:
    """The order of a dense tensor's dims; the rows of the numbering where unit dims leave it open.
    None for one with gaps or repeated elements, and for one of a single dim."""
    sizable = [k for k, size in enumerate(layout.shape) if size != 1]
    if len(sizable) < 2 or 0 in layout.shape or not layout.is_dense:
        return None
    order = sorted(range(len(layout.shape)), key=lambda k: (-layout.strides[k], k))
    return _plain(order, layout.shape)


def _plain(order: Sequence[int], shape: Sequence[int]) -> Order:
    """`order`, or the numbering of the dims where only unit dims tell it from that."""
    sizable = [k for k in order if shape[k] != 1]
    return tuple(range(len(shape))) if sizable == sorted(sizable) else tuple(order)


def _is_permutation(tv: TensorView) -> bool:
    return tv.is_of("permute")


@dataclass
class _Walk:
    """The order of every tensor of which it is known; None where operands disagreed."""

    orders: dict[TensorView, Order | None]
    mixed: set[TensorView] = field(default_factory=set)  # the same, as they were before

    def rule(self, tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        operands = [v for v in inputs if isinstance(v, TensorView)]
        if tv in self.orders:
            return None
        if tv.family is Family.POINTWISE:
            return self._element_by_element(tv, inputs, operands)
        order = self.orders.get(operands[0]) if operands else None
        if order is None:
            return None
        if _is_permutation(tv):
            return self._permuted(tv, inputs, order)
        return _reduced(tv, operands[0], order) if is_reduction(tv) else None

    def _element_by_element(
        self, tv: TensorView, inputs: tuple[Value, ...], operands: list[TensorView]
    ) -> TensorView | None:
        orders = {self.orders[v] for v in operands if v in self.orders and v.shape == tv.shape}
        if not orders:
            return None
        made, order = _rebuilt(tv, inputs), orders.pop()
        if orders:
            self.mixed.add(tv)
            order = None
        elif order is not None and order != tuple(range(tv.ndim)):
            made = lying(made, order)
        self.orders[made] = order
        return made

    def _permuted(self, tv: TensorView, inputs: tuple[Value, ...], before: Order) -> TensorView:
        made, dims = _rebuilt(tv, inputs), tv.expr.dims()
        order = _plain([dims.index(dim) for dim in before], tv.shape)
        are_channels = order in CHANNELS_LAST and tv.shape[1] >= MIN_TURNED
        if order == tuple(range(tv.ndim)) or are_channels:
            self.orders[made] = order
        return made


def _reduced(tv: TensorView, operand: TensorView, order: Order) -> TensorView | None:
    """The reduction of a permuted operand, which lies in `order`."""
    if order == tuple(range(operand.ndim)):
        return None
    turned, dims = call("permute", operand, dims=order), tv.expr.dims()
    places = tuple(k for k, dim in enumerate(order) if dim in dims)
    made = apply(tv.expr.op, [turned], {"dims": places})
    kept = [dim for dim in order if dim not in dims]
    if kept != sorted(kept):
        back = tuple(kept.index(dim) for dim in sorted(kept))
        made = call("permute", made, dims=back)
    assert isinstance(made, TensorView)
    return made


def _rebuilt(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView:
    """`tv` of `inputs`; itself where these are its own."""
    if all(a is b for a, b in zip(inputs, tv.expr.inputs, strict=True)):
        return tv
    return again(tv.expr, inputs)
