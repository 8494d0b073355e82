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
from typing import TypeGuard

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
    calls = [s for s in scope.statements if _is_shorter_near_zero(s)]
    if len(calls) != 1 or scope.stores or scope.loads:
        return None
    (call,) = calls
    function, (operand,) = call.value.op, call.value.args
    size = Variable("size", DataType.Float)
    away = Assign(size, Compute(op("abs"), (operand,), DataType.Float, Accuracy.NORMAL))
    before = scope.statements[: scope.statements.index(call)]
    known = [s for s in before if isinstance(s, Assign)]
    tests = used([*known, away, Accumulate(FARTHEST, op("max"), size)])
    short = replace(call, value=replace(call.value, op=replace(function, cuda=function.near)))
    near = tuple(short if s is call else s for s in scope.statements)
    return Near(replace(scope, statements=tests), function.within, replace(scope, statements=near))


class _Call(Assign):
    value: Compute


def _is_shorter_near_zero(statement: LaneStatement) -> TypeGuard[_Call]:
    """True for an exact function of f32 that has a form for operands near zero."""
    match statement:
        case Assign(Variable(dtype=DataType.Float), Compute(op=function, accuracy=accuracy)):
            return bool(function.near) and accuracy is Accuracy.NORMAL
    return False
