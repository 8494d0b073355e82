"""Walk tensors in the order in which they lie in memory.

    T0: bf16[8, 64, 28, 28], channels innermost
    T1 = relu(T0)                      =>   T1 lies like T0
    T2 = sum(T1, dims=[0, 2, 3])       =>   T2 = sum(permute(T1, dims=[0, 2, 3, 1]), dims=[0, 1, 2])

What is computed element by element lies like its operands where those agree, as in torch. A
reduction whose operand lies in another order than its dims are numbered becomes one of a permuted
operand: then its kept or its reduced axes are innermost, which templates look at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from thunder_fuser.analysis.layout import Layout
from thunder_fuser.ir.build import apply, call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import lying, rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.ops import Family

Order = tuple[int, ...]  # dims, outermost in memory first


def follow_memory(fusion: Fusion, layouts: Mapping[TensorView, Layout]) -> Fusion:
    """`fusion`, whose inputs lie as `layouts`, in their order. Inputs stay the same tensors."""
    given = [tv for tv in fusion.inputs if isinstance(tv, TensorView)]
    found = {tv: order for tv in given if (order := _order_of(layouts[tv])) is not None}
    if all(order == tuple(range(tv.ndim)) for tv, order in found.items()):
        return fusion
    return rewrite(fusion, _Walk(found).rule)


def _order_of(layout: Layout) -> Order | None:
    """The order of a dense tensor's dims; the rows of the numbering where unit dims leave it open.
    None for one with gaps or repeated elements, and for one of a single dim."""
    sizable = [k for k, size in enumerate(layout.shape) if size != 1]
    if len(sizable) < 2 or 0 in layout.shape or not layout.is_dense:
        return None
    if sizable == sorted(sizable, key=lambda k: -layout.strides[k]):
        return tuple(range(len(layout.shape)))
    order = sorted(range(len(layout.shape)), key=lambda k: (-layout.strides[k], k))
    return tuple(order)


@dataclass
class _Walk:
    """The order of every tensor of which it is known."""

    orders: dict[TensorView, Order] = field(default_factory=dict)

    def rule(self, tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        assert tv.definition is not None
        operands = [v for v in inputs if isinstance(v, TensorView)]
        match tv.definition.op.family:
            case Family.POINTWISE:
                return self._element_by_element(tv, inputs, operands)
            case Family.REDUCTION if operands[0] in self.orders:
                return self._reduced(tv, operands[0])
        return None

    def _element_by_element(
        self, tv: TensorView, inputs: tuple[Value, ...], operands: list[TensorView]
    ) -> TensorView | None:
        orders = {self.orders[v] for v in operands if v in self.orders and v.shape == tv.shape}
        if len(orders) != 1:
            return None
        assert tv.definition is not None
        (order,) = orders
        made: Value = tv
        if any(a is not b for a, b in zip(inputs, tv.definition.inputs, strict=True)):
            made = apply(tv.definition.op, inputs, dict(tv.definition.attrs))
        assert isinstance(made, TensorView)
        if order != tuple(range(tv.ndim)):
            made = lying(made, order)
        self.orders[made] = order
        return made

    def _reduced(self, tv: TensorView, operand: TensorView) -> TensorView | None:
        assert tv.definition is not None
        order, dims = self.orders[operand], tv.definition.attr("dims")
        assert isinstance(dims, tuple)
        if order == tuple(range(operand.ndim)):
            return None
        turned = call("permute", operand, dims=order)
        places = tuple(k for k, dim in enumerate(order) if dim in dims)
        made = apply(tv.definition.op, [turned], {"dims": places})
        kept = [dim for dim in order if dim not in dims]
        if kept != sorted(kept):
            back = tuple(kept.index(dim) for dim in sorted(kept))
            made = call("permute", made, dims=back)
        assert isinstance(made, TensorView)
        return made
