"""Elements of 16 bits that a reduction takes two at a time, as they come from memory.

    T0_0: f32 = v0[k][1*lane + 0]
    T2_part max= T0_0                =>   T2_part max= pairs of v0[k]

The largest element is one of them, so that it needs no wider type, and so is the largest distance
from zero. One instruction takes two, in place of four, and what phases behind convert is not kept
in wider registers until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass, replace

from thunder_fuser.analysis.digits import Loaded
from thunder_fuser.dtypes import DataType
from thunder_fuser.kernel.scopes import Pairs, Scope
from thunder_fuser.kernel.statements import (
    Accumulate,
    Assign,
    Compute,
    LaneStatement,
    ReadVector,
    Variable,
    VectorAccess,
)

NARROW = (DataType.BFloat16, DataType.Half)


def pairs_of(scope: Scope, loads: Sequence[VectorAccess], lanes: int) -> tuple[Pairs, ...]:
    """What a scope can take in pairs of vectors that are loaded, of so many lanes."""
    vectors = {name: a for a in loads for name in (a.name, f"{a.name}[k]")}  # those that are kept
    made = {s.variable: s.value for s in scope.statements if isinstance(s, Assign)}
    found = []
    for s in scope.statements:
        if not isinstance(s, Accumulate) or not isinstance(s.value, Variable):
            continue
        value = made.get(s.value)
        is_size = isinstance(value, Compute) and value.op.name == "abs"
        if isinstance(value, Compute) and is_size and isinstance(value.args[0], Variable):
            value = made.get(value.args[0])
        if not isinstance(value, ReadVector) or lanes % 2 or not s.op.in_pairs or s.windows:
            continue
        whole = vectors.get(value.vector)
        if (
            whole is not None
            and whole.dtype in NARROW
            and whole.length == lanes
            and not whole.beside
            and (value.weight, value.delta) == (1, 0)
        ):
            found.append(Pairs(s.accumulator, s.op, value.vector, whole.dtype, is_size))
    return tuple(found)


def beside_pairs(scope: Scope, pairs: Sequence[Pairs]) -> Scope:
    """What else the scope does for a vector."""
    taken = {p.accumulator for p in pairs}
    left = [
        s for s in scope.statements if not (isinstance(s, Accumulate) and s.accumulator in taken)
    ]
    return replace(scope, statements=used(left)) if taken else scope


def used(statements: Sequence[LaneStatement]) -> tuple[LaneStatement, ...]:
    """Without what no statement reads."""
    read, found = set[str](), list[LaneStatement]()
    for s in reversed(statements):
        if isinstance(s, Assign) and s.variable.name not in read:
            continue
        read |= set(_names(s.value if isinstance(s, Assign) else s))
        found.append(s)
    return tuple(reversed(found))


def _names(node: object) -> Iterable[str]:
    """Of the variables in a statement or an expression, those that hold loaded indices too."""
    if isinstance(node, (Variable, Loaded)):
        yield node.name
    elif isinstance(node, tuple):
        for part in node:
            yield from _names(part)
    elif is_dataclass(node) and not isinstance(node, (VectorAccess, type)):
        for field in fields(node):
            yield from _names(getattr(node, field.name))
