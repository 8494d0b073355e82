"""Compare a checked place in 32 bits.

    T2: i64[i4096] = in_range(T1, 19);  T3 = eq(T2, T0)    with T0 = iota(0, 1, length=[4096])

    =>  T3 = eq(cast(T2, dtype=i32), cast(T0, dtype=i32))

as a one-hot does: one instruction an element in place of two. That a place has 32 bits the compiler
knows of an index alone, but not of one that a thread begins at.
"""

from __future__ import annotations

from thunder_fuser.analysis.precision import behind_views
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import again, call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.scalar import Constant
from thunder_fuser.ir.tensor import Expr, TensorView, Value
from thunder_fuser.ops import Family, OpDef

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
END = 1 << 31  # of what 32 bits hold


def compare_places(fusion: Fusion) -> Fusion:
    """`fusion` with such comparisons in 32 bits."""
    return rewrite(fusion, _compare)


def _compare(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    if tv.expr.op.name not in COMPARISONS:
        return None
    places = [v for v in inputs if isinstance(v, TensorView) and v.dtype is DataType.Int]
    if len(places) < 2 or not all(map(_is_short, places)) or not any(map(_is_checked, places)):
        return None
    return again(tv.expr, [call("cast", v, dtype=DataType.Int32) for v in places])


def _is_short(tv: TensorView) -> bool:
    """True for what has 32 bits: a place that is checked, or that of an element."""
    match behind_views(tv).definition:
        case Expr(OpDef(name="in_range"), (_, Constant(int() as limit))):
            return limit <= END
        case Expr(OpDef(family=Family.IOTA), (Constant(int() as first), Constant(int() as step))):
            last = first + step * (behind_views(tv).shape[0] - 1)
            return min(first, last) >= -END and max(first, last) < END
    return False


def _is_checked(tv: TensorView) -> bool:
    return behind_views(tv).is_of("in_range")
