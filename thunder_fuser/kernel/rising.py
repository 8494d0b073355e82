"""The largest of what a rising function makes is what it makes of the largest.

    T2_0: f32 = div(T0_0, 30.0)         T4_most max= T0_0
    T3_0: f32 = tanh(T2_0)        =>    and behind the vectors
    T4_part max= T3_0                   T2_0: f32 = div(T4_most, 30.0)
                                        T3_0: f32 = tanh(T2_0)
                                        T4_part max= T3_0

The phase of the maximum computes the function once a thread, the next one for its terms, so that no
element is kept beside the row. Only of 16-bit elements, which are found two at a time: a product
with a number keeps their order however it is rounded, and a function that `rises` does so where its
operands are as far apart as these. None is less than what it makes of minus infinity.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TypeVar

from thunder_fuser.analysis.access import Demand, Element
from thunder_fuser.ir.scalar import Constant
from thunder_fuser.ir.tensor import Expr, TensorView
from thunder_fuser.kernel.statements import Literal
from thunder_fuser.ops import OpDef

T = TypeVar("T")

LEAST, MOST = 2.0**-20, 2.0**20  # factors that values of a model meet are within


def risen_from(needs: Demand, fast: Set[TensorView]) -> Element | None:
    """The 16-bit element of which what is needed is a rising function."""
    steps = [element.tensor for element in needs.elements.values()]
    if len(needs.leaves) != 1 or needs.places or [*needs.windows()]:
        return None
    (leaf,) = needs.leaves
    is_risen = leaf[0].dtype.is_reduced_precision and all(_rises(tv, fast) for tv in steps)
    return leaf if is_risen and not all(tv.is_of("cast") for tv in steps) else None


def scaled(op: OpDef, operands: tuple[T, ...]) -> T | None:
    """The operand that is multiplied or divided by a number which turns no sign, and leaves what is
    neither 0 nor infinite so; None for another op."""
    match op.name, operands:
        case "mul" | "div" | "truediv", (factor, number) if _is_moderate(number):
            return factor
        case "mul", (number, factor) if _is_moderate(number):
            return factor
    return None


def _is_moderate(value: object) -> bool:
    match value:
        case Constant(float() | int() as number) | Literal(float() | int() as number):
            return LEAST <= number <= MOST
    return False


def _rises(tv: TensorView, fast: Set[TensorView]) -> bool:
    """True for an element that a function which keeps order makes of one other."""
    if not tv.dtype.is_floating:
        return False
    match tv.definition:
        case Expr(op, operands) if isinstance(scaled(op, operands), TensorView):
            return True
        case Expr(OpDef(rises=True)):
            return tv not in fast
    return tv.is_of("cast")
