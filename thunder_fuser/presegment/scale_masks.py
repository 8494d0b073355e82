"""Scale a mask, not what it is applied to: that is another value of the choice.

    T3 = mul(T0, T2);  T4 = mul(T3, 1.25)    =>    T3 = mul(T2, 1.25);  T4 = mul(T0, T3)

where T2 is 0 or 1, as in a dropout and in its gradient, which scales first. The same bits, as the
scale is above 0; but what is left out of a gradient that the scale takes beyond the largest number
is 0, not NaN, so `strict` scales where the trace does. Only of f32 and f64, which round nothing in
between.
"""

from __future__ import annotations

from math import inf

from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.scalar import Constant
from thunder_fuser.ir.tensor import Expr, TensorView, Value
from thunder_fuser.ops import OpDef


def scale_masks(fusion: Fusion) -> Fusion:
    """`fusion` with the scales of what is masked on the masks."""
    return rewrite(fusion, _scale)


def _scale(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    if tv.expr.op.name != "mul" or tv.dtype not in (DataType.Float, DataType.Double):
        return None
    factors = [factor for value in inputs for factor in _factors(value, tv.dtype)]
    scales = [f for f in factors if _is_scale(f)]
    masks = [f for f in factors if _is_mask(f, tv.dtype)]
    others = [f for f in factors if f not in scales and f not in masks]
    if len(factors) != 3 or not len(scales) == len(masks) == len(others) == 1:
        return None
    return call("mul", others[0], call("mul", masks[0], scales[0]))


def _factors(value: Value, dtype: DataType) -> tuple[Value, ...]:
    match value:
        case TensorView(definition=Expr(OpDef(name="mul"), inputs)) if value.dtype is dtype:
            return inputs
    return (value,)


def _is_scale(value: Value) -> bool:
    match value:
        case Constant(float() | int() as scale):
            return 0 < scale < inf
    return False


def _is_mask(value: Value, dtype: DataType) -> bool:
    match value:
        case TensorView(definition=Expr(OpDef(name="cast"), (TensorView(dtype=DataType.Bool),))):
            return value.dtype is dtype  # which has the digits of the scale
    return False
