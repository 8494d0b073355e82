"""Divide by a count before elements are chosen, not after.

    T3 = mul(T0, cast(T1));  T4 = div(T3, cast(T2))    =>    T4 = mul(div(T0, cast(T2)), cast(T1))

T1 are truths and T2 whole numbers, so a quotient is multiplied by 1 or 0 where its dividend was:
the same bits, also of what is infinite or no number. In the gradient of an extremum T0 and T2 are
of a row, whose elements share it: one quotient a row. A dividend of 0, as all elements but the
extremum had, takes a division some 60 instructions.
"""

from __future__ import annotations

from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import Expr, TensorView, Value
from thunder_fuser.ops import OpDef


def divide_first(fusion: Fusion) -> Fusion:
    """`fusion` with the quotients above taken first."""
    return rewrite(fusion, _divide)


def _divide(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    match tv.definition, inputs:
        case Expr(OpDef(name="div" | "truediv") as op), (
            TensorView(definition=Expr(OpDef(name="mul"), (TensorView() as a, TensorView() as b))),
            TensorView() as count,
        ):
            source = _cast_from(count)
            if source is None or not source.is_integral or tv.dtype is not count.dtype:
                return None
            for value, truths in ((a, b), (b, a)):
                if _cast_from(truths) is DataType.Bool and value.dtype is tv.dtype:
                    return call("mul", call(op.name, value, count), truths)
    return None


def _cast_from(tv: TensorView) -> DataType | None:
    """The type of what floats are a cast of."""
    match tv.definition:
        case Expr(OpDef(name="cast"), (TensorView() as source,)) if tv.dtype.is_floating:
            return source.dtype
    return None
