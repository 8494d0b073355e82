"""Store what reductions come to before something larger is computed from it.

    T2: f32[i2047] = rsqrt(T1);  T3: f32[i32784, i2047] = mul(T0, T2)
        =>   T4: f32[i2047] = segment_set(T2);  T3 = mul(T0, T4)

Each element of T3 would combine the parts of T1 anew. What follows from a reduction and is no
larger is computed where these are combined.
"""

from __future__ import annotations

from math import prod

from thunder_fuser.ir.build import again, call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import Rule, lying_like, rewrite
from thunder_fuser.ir.tensor import TensorView, Value


def store_first(fusion: Fusion, reduce: Rule) -> Fusion:
    """`fusion` with the reductions that `reduce` makes of others, or None of what stays."""
    stored = dict[Value, TensorView]()
    following = set[TensorView]()  # such reductions, and what is no larger and follows from them

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        made = reduce(tv, inputs)
        if made is not None:
            following.add(tv)
            return made
        if following.isdisjoint(tv.producers):
            return None
        if all(prod(tv.shape) <= prod(t.shape) for t in following & {*tv.producers}):
            following.add(tv)
            return None
        read = [
            stored.setdefault(new, call("segment_set", new)) if old in following else new
            for old, new in zip(tv.expr.inputs, inputs, strict=True)
        ]
        return lying_like(tv, again(tv.expr, read))

    return rewrite(fusion, rule)
