"""Run a sum from the other end instead of turning its operand and its result.

    T1 = flip(T0, dims=[1]); T2 = cumsum(T1, dim=1); T3 = flip(T2, dims=[1])
        =>   T3 = cumsum(T0, dim=1, reverse=True)

That is the gradient of a running sum. An axis read backward makes no vectors.
"""

from __future__ import annotations

from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import Expr, TensorView, Value


def fold_flips(fusion: Fusion) -> Fusion:
    """`fusion` with running sums between two flips of their axis run the other way."""
    return rewrite(fusion, _fold)


def _fold(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    outer = tv.expr
    summed = inputs[0] if inputs else None
    if outer.op.name != "flip" or not isinstance(summed, TensorView):
        return None
    middle = summed.definition
    if middle is None or middle.op.name != "cumsum":
        return None
    dim, turned = middle.dim, middle.tensors[0].definition
    if outer.attr("dims") != (dim,) or not _is_flip(turned, dim):
        return None
    assert turned is not None
    return call("cumsum", turned.tensors[0], dim=dim, reverse=not middle.attr("reverse"))


def _is_flip(expr: Expr | None, dim: int) -> bool:
    return expr is not None and expr.op.name == "flip" and expr.attr("dims") == (dim,)
