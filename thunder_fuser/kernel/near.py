"""Functions that take fewer instructions near zero, where all elements of a thread lie there.

    T2_0: f32 = div(T0_0, 30.0)         farthest max= abs(T0_0)
    T3_0: f32 = tanh(T2_0)        =>    and where farthest / 30.0 < 0.6
    T5_part max= T3_0                   T2_0: f32 = div(T0_0, 30.0)
                                        T3_0: f32 = near_tanh(T2_0)
                                        T5_part max= T3_0

An exact tanh is 15 instructions, two of them of the unit for exponentials; within 0.6 it is a
polynomial of six. Logits that a model caps at 30 are seldom beyond 18: a thread whose are all below
does without the rest. Rounding keeps an order, so what all elements are divided or multiplied by,
only the farthest of them has to be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from thunder_fuser.dtypes import DataType
from thunder_fuser.kernel.pairs import beside_pairs, pairs_of, used
from thunder_fuser.kernel.rising import scaled
from thunder_fuser.kernel.scopes import Pairs, Scope
from thunder_fuser.kernel.statements import (
    Accumulate,
    Accuracy,
    Assign,
    Compute,
    Expression,
    LaneStatement,
    Operand,
    Variable,
    VectorAccess,
)
from thunder_fuser.ops import op

FARTHEST = Variable("farthest", DataType.Float)  # from zero that an operand of the thread lies


@dataclass(frozen=True)
class Near:
    """The scope where all operands lie `within` a distance of zero. That is where `reach` does,
    which is `scaled` from the farthest element that `tests` and `pairs` of elements find."""

    tests: Scope
    pairs: tuple[Pairs, ...]
    scaled: tuple[Assign, ...]
    reach: Variable
    within: float
    scope: Scope


def near_of(scope: Scope, loads: Sequence[VectorAccess], lanes: int) -> Near | None:
    """Of a scope of so many lanes, whose vectors are loaded. None for one without such a function,
    or with several, and for one that loads or stores: what it does would be done twice, or take
    less time than memory."""
    statements = scope.statements
    calls = {n: found for n, s in enumerate(statements) if (found := _shorter_near_zero(s))}
    if len(calls) != 1 or scope.stores or scope.loads:
        return None
    ((place, (result, call)),) = calls.items()
    function, (operand,) = call.op, call.args
    known = [s for s in statements[:place] if isinstance(s, Assign)]
    element, multiple = _unscaled(operand, {s.variable: s.value for s in known})
    size = Variable("size", DataType.Float)
    away = Assign(size, Compute(op("abs"), (element,), DataType.Float, Accuracy.NORMAL))
    tests = replace(scope, statements=used([*known, away, Accumulate(FARTHEST, op("max"), size)]))
    pairs = pairs_of(tests, loads, lanes)
    short = Assign(result, replace(call, op=replace(function, cuda=function.near)))
    near = replace(scope, statements=(*statements[:place], short, *statements[place + 1 :]))
    reach = multiple[-1].variable if multiple else FARTHEST
    return Near(beside_pairs(tests, pairs), pairs, multiple, reach, function.within, near)


def _unscaled(
    operand: Operand, made: Mapping[Operand, Expression]
) -> tuple[Operand, tuple[Assign, ...]]:
    """What the operand is a multiple of, and how it is made of that, for the farthest of all."""
    steps: list[Compute] = []
    while isinstance(step := made.get(operand), Compute):
        factor = scaled(step.op, step.args)
        if not isinstance(factor, Variable):
            break
        operand = factor
        steps.append(step)
    again: list[Assign] = []
    for number, step in enumerate(reversed(steps)):
        before = again[-1].variable if again else FARTHEST
        args = tuple(before if isinstance(a, Variable) else a for a in step.args)
        after = Variable(f"{FARTHEST.name}_{number}", DataType.Float)
        again.append(Assign(after, replace(step, args=args)))
    return operand, tuple(again)


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
