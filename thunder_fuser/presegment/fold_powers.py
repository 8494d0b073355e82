"""Write a power with a small constant exponent as torch computes it.

    T1 = pow(T0, 2.0)    =>    T1 = mul(T0, T0)
    T1 = pow(T0, 1.0)    =>    T1 = set(T0)    which shares no memory with T0
    T1 = div(1.0, T0)    =>    T1 = reciprocal(T0)

Only floating-point powers: torch's own kernels make the same choice for 2, 3, 0.5, -0.5, -1 and -2.
A quotient of 1, as in a logistic function written out, is the power of -1: where the result is
rounded to 16 bits anyway, hardware has an instruction for it, and for other quotients five.
"""

from __future__ import annotations

from collections.abc import Callable

from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.scalar import Constant
from thunder_fuser.ir.tensor import TensorView, Value

_FORMS: dict[float, Callable[[TensorView], TensorView]] = {
    1.0: lambda x: call("set", x),
    2.0: lambda x: call("mul", x, x),
    3.0: lambda x: call("mul", call("mul", x, x), x),
    0.5: lambda x: call("sqrt", x),
    -0.5: lambda x: call("rsqrt", x),
    -1.0: lambda x: call("reciprocal", x),
    -2.0: lambda x: call("reciprocal", call("mul", x, x)),
}


def fold_powers(fusion: Fusion) -> Fusion:
    """`fusion` with the powers above written out."""
    return rewrite(fusion, _fold)


def _fold(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    if not tv.dtype.is_floating:
        return None
    match tv.expr.op.name, inputs:
        case "pow", (TensorView() as base, Constant(float() | int() as exponent)) if (
            base.dtype is tv.dtype and exponent in _FORMS
        ):
            return _FORMS[exponent](base)
        case "div" | "truediv", (Constant(float() | int() as one), TensorView() as base) if (
            base.dtype is tv.dtype and one == 1
        ):
            return call("reciprocal", base)
    return None
