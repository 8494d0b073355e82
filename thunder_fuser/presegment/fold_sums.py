"""Leave out reductions of one term, which the gradient of a broadcast has beside longer ones.

    T1: f32[i8, r1, r1] = sum(T0: f32[i8, i1, i1], dims=[1, 2])
        =>   T1: f32[i8] = set(squeeze(T0))

Behind a sum that blocks share they would be another launch: what each element combines is known
behind the last block alone.
"""

from __future__ import annotations

from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value

OF_TERMS = frozenset({"sum", "prod", "max", "min"})


def fold_sums(fusion: Fusion) -> Fusion:
    """`fusion` without such reductions; what they are of stays another tensor, as in torch."""
    return rewrite(fusion, _fold)


def _fold(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    if tv.expr.op.name not in OF_TERMS:
        return None
    if any(a.is_reduction and a.size != 1 for a in tv.domain.logical):
        return None
    (source,) = inputs
    assert isinstance(source, TensorView)
    made = call("squeeze", source, dims=tv.expr.attr("dims"), squeeze_expanded=True)
    same = source.dtype is tv.dtype
    return call("set", made) if same else call("cast", made, dtype=tv.dtype)
