"""Functions that take fewer instructions near zero, where all elements of a thread lie there.

    T3_0: f32 = tanh(T2_0)      =>      farthest max= abs(T2_0)
    T5_part max= T3_0                   and where farthest < 0.6
                                        T3_0: f32 = near_tanh(T2_0)
                                        T5_part max= T3_0

An exact tanh is 15 instructions, two of them of the unit for exponentials; within 0.6 it is a
polynomial of six. Logits that a model caps at 30 are seldom beyond 18: a thread whose are all below
does without the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from thunder_fuser.dtypes import DataType
from thunder_fuser.kernel.pairs import used
from thunder_fuser.kernel.row_ir import Scope
from thunder_fuser.kernel.statements import (
    Accumulate,
    Accuracy,
    Assign,
    Compute,
    LaneStatement,
    Variable,
)
from thunder_fuser.ops import op

FARTHEST = Variable("farthest", DataType.Float)  # from zero that an operand of the thread lies


@dataclass(frozen=True)
class Near:
    """The scope where all operands lie `within` a distance of zero, which `tests` tell."""

    tests: Scope
    within: float
    scope: Scope


def near_of(scope: Scope) -> Near | None:
    """None for a scope without such a function, or with several, and for one that loads or stores:
    what it does would be done twice, or take less time than memory."""
    statements = scope.statements
    calls = {n: found for n, s in enumerate(statements) if (found := _shorter_near_zero(s))}
    if len(calls) != 1 or scope.stores or scope.loads:
        return None
    ((place, (result, call)),) = calls.items()
    function, (operand,) = call.op, call.args
    size = Variable("size", DataType.Float)
    away = Assign(size, Compute(op("abs"), (operand,), DataType.Float, Accuracy.NORMAL))
    known = [s for s in statements[:place] if isinstance(s, Assign)]
    tests = used([*known, away, Accumulate(FARTHEST, op("max"), size)])
    short = Assign(result, replace(call, op=replace(function, cuda=function.near)))
    near = (*statements[:place], short, *statements[place + 1 :])
    return Near(replace(scope, statements=tests), function.within, replace(scope, statements=near))


def _shorter_near_zero(statement: LaneStatement) -> tuple[Variable, Compute] | None:
    """The result and the call of an exact function of f32 that has a form for operands near
    zero."""
    match statement:
        case Assign(
            Variable(dtype=DataType.Float) as result,
            Compute(op=function, accuracy=Accuracy.NORMAL) as call,
        ) if function.near:
            return result, call
    return None
