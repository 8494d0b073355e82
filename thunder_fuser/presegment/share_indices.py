"""Compute equal integers once.

    T1 = neg(T0); T2 = group_order(T1, 9); T3 = neg(T0); T4 = group_order(T3, 9)    =>    T4 is T2

Two sums by one index bring an order each. Integers that are computed alike are one tensor, so that
the index is put in order once and the sums may share a kernel. What is returned or written stays
apart.
"""

from __future__ import annotations

from thunder_fuser.ir.build import again
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.ops import Family


def share_indices(fusion: Fusion) -> Fusion:
    """`fusion` itself where nothing is put in order."""
    if all(expr.op.family is not Family.ORDER for expr in fusion.exprs):
        return fusion
    apart, known = set(fusion.roots), dict[object, TensorView]()

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        expr = tv.expr
        is_drawn = expr.op.family is Family.RANDOM
        if tv in apart or is_drawn or tv.dtype.is_floating or tv.dtype.is_complex:
            return None
        key = (expr.op.name, inputs, expr.attrs, tv.dtype)
        if key in known:
            return known[key]
        same = inputs == expr.inputs
        made = tv if same else again(expr, inputs)
        known[key] = made
        return None if same else made

    return rewrite(fusion, rule)
