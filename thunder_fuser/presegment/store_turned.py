"""Store what a walk sums in its own order before it is turned.

    T4: f32[i4104, i513] = sum(T3: f32[i4104, i40, i513], dims=[1], walked=164160)
    T6: bf16[i513, i513, i8] = permute(cast(T4, ...), dims=[1, 2, 0])
        =>   T5 = segment_set(cast(T4));  T6 = permute(T5, dims=[1, 2, 0])

Blocks that walk rows have sums down their columns side by side, and store them so. A segment that
should store them in another order is none that they hold: the plane was stored for a sum of
torch's. Whoever reads the small result next reads it in whatever order.
"""

from __future__ import annotations

from thunder_fuser.analysis.reductions import walked_rows
from thunder_fuser.analysis.views import is_metadata, is_same_order
from thunder_fuser.ir.build import apply, call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import Expr, TensorView, Value
from thunder_fuser.ops import OpDef


def store_turned(fusion: Fusion) -> Fusion:
    """`fusion` with stop points before the permutations of such sums."""
    return rewrite(fusion, _stored)


def _stored(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    match tv.definition:
        case Expr(OpDef(name="permute") as op, (TensorView() as x,)) as expr:
            if not _follows_a_walk(x) or is_same_order(x, tv):
                return None
            (made,) = inputs
            assert isinstance(made, TensorView)
            turned = apply(op, (call("segment_set", made),), dict(expr.attrs))
            assert isinstance(turned, TensorView)
            return turned
    return None


def _follows_a_walk(tv: TensorView) -> bool:
    """True for such sums, their casts and views."""
    while tv.definition is not None and walked_rows(tv) is None:
        if not is_metadata(tv) and tv.definition.op.name != "cast":
            return False
        tv = tv.definition.tensors[0]
    return walked_rows(tv) is not None
