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
from thunder_fuser.ir.build import again, call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value


def store_turned(fusion: Fusion) -> Fusion:
    """`fusion` with stop points before the permutations of such sums."""
    return rewrite(fusion, _stored)


def _stored(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    if not tv.is_of("permute"):
        return None
    (x,) = tv.producers
    if not _follows_a_walk(x) or is_same_order(x, tv):
        return None
    return again(tv.expr, (call("segment_set", *inputs),))


def _follows_a_walk(tv: TensorView) -> bool:
    """True for such sums, their casts and views."""
    while walked_rows(tv) is None and (is_metadata(tv) or tv.is_of("cast")):
        (tv,) = tv.producers
    return walked_rows(tv) is not None
