"""Write the reciprocal of 1 and an exponential as the logistic function that it is.

    T1 = neg(T0);  T2 = exp(T1);  T3 = add(1.0, T2);  T4 = reciprocal(T3)    =>    T4 = sigmoid(T0)

Of f32 alone, which no trace rounds between. A reciprocal of what may be any number is a branch for
each element, so that elements of a thread wait for each other; of what is at least 1 it is three
instructions.
"""

from __future__ import annotations

from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.scalar import Constant
from thunder_fuser.ir.tensor import Expr, TensorView, Value
from thunder_fuser.ops import OpDef


def fold_logistics(fusion: Fusion) -> Fusion:
    """`fusion` with such reciprocals as logistic functions."""
    return rewrite(fusion, _fold)


def _fold(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    match tv.definition, inputs:
        case Expr(OpDef(name="reciprocal")), (
            TensorView(
                dtype=DataType.Float,
                definition=Expr(
                    OpDef(name="add"),
                    (Constant(value=1), TensorView() as term)
                    | (TensorView() as term, Constant(value=1)),
                ),
            ),
        ) if (exponent := _exponent(term)) is not None:
            return call("sigmoid", _negated(exponent))
    return None


def _exponent(term: TensorView) -> TensorView | None:
    match term:
        case TensorView(
            dtype=DataType.Float, definition=Expr(OpDef(name="exp"), (TensorView() as exponent,))
        ) if exponent.dtype is DataType.Float:
            return exponent
    return None


def _negated(x: TensorView) -> TensorView:
    match x.definition:
        case Expr(OpDef(name="neg"), (TensorView() as inner,)):
            return inner
    return call("neg", x)
