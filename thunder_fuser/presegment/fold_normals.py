"""Write half of 1 and an error function as the distribution function that it is.

    T1 = div(T0, 1.414);  T2 = erf(T1);  T3 = mul(0.5, T2);  T4 = add(0.5, T3)  =>  T4 = ndtr(T0)

Of f32 alone, which no trace rounds between, and not with `strict`. An error function that has all
of its digits near 0 chooses between two sets of coefficients, 24 instructions, of which the sum
keeps what one set gives in 12. It is what a gelu multiplies by.
"""

from __future__ import annotations

from math import isclose, sqrt

from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.scalar import Constant
from thunder_fuser.ir.tensor import Expr, TensorView, Value
from thunder_fuser.ops import OpDef


def fold_normals(fusion: Fusion) -> Fusion:
    """`fusion` with such sums as distribution functions."""
    return rewrite(fusion, _fold)


def _fold(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    one: TensorView | None
    match tv.definition:
        case Expr(OpDef(name="add")) if (half := _beside(inputs, 0.5)) is not None:
            one = _beside(_inputs(half, "mul"), 0.5)
        case Expr(OpDef(name="mul")) if (whole := _beside(inputs, 0.5)) is not None:
            one = _beside(_inputs(whole, "add"), 1.0)
        case _:
            return None
    match one:
        case TensorView(
            dtype=DataType.Float, definition=Expr(OpDef(name="erf"), (TensorView() as scaled,))
        ) if (x := _unscaled(scaled)) is not None:
            return call("ndtr", x)
    return None


def _unscaled(scaled: TensorView) -> TensorView | None:
    """x of x / sqrt(2)."""
    match scaled.definition:
        case Expr(OpDef(name="div"), (TensorView(dtype=DataType.Float) as x, Constant() as number)):
            return x if _is(number, sqrt(2.0)) else None
    factor = _beside(_inputs(scaled, "mul"), sqrt(0.5))
    return factor if factor is not None and factor.dtype is DataType.Float else None


def _inputs(tv: TensorView, name: str) -> tuple[Value, ...]:
    """The operands of an f32 value that such an op makes."""
    match tv:
        case TensorView(dtype=DataType.Float, definition=Expr(OpDef(name=found), inputs)) if (
            found == name
        ):
            return tuple(inputs)
    return ()


def _beside(inputs: tuple[Value, ...], number: float) -> TensorView | None:
    """The other operand of two of which one is that number."""
    match inputs:
        case (Constant() as known, TensorView() as tv) | (TensorView() as tv, Constant() as known):
            return tv if _is(known, number) else None
    return None


def _is(known: Constant, number: float) -> bool:
    value = known.value
    return isinstance(value, int | float) and isclose(value, number, rel_tol=2.0**-22)
