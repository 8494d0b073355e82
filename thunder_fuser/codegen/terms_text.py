"""Terms that a reduction takes several of at once, as C++ text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thunder_fuser.codegen.types import COMPUTE_TYPES
from thunder_fuser.kernel.statements import Accumulate, Hold, LaneStatement, Variable


@dataclass(frozen=True)
class Terms:
    """Statements that leave terms in arrays, the lines that declare these, and those that add
    them."""

    statements: tuple[LaneStatement, ...]
    declared: tuple[str, ...] = ()
    added: tuple[str, ...] = ()


def at_once(statements: Sequence[LaneStatement], sizes: str, place: str) -> Terms:
    """`statements` that leave each term in an array of such `sizes`, at its `place` in that of its
    accumulator, where a reduction takes several."""
    left, declared, added = list[LaneStatement](), list[str](), list[str]()
    for statement in statements:
        match statement:
            case Accumulate(so_far, op, value, ()) if op.steps:
                terms = so_far.name.replace("_part", "_terms")
                name, _, _ = terms.partition("[")
                declared.append(f"{COMPUTE_TYPES[value.dtype]} {name}{sizes};")
                left.append(Hold(Variable(f"{terms}{place}", value.dtype), value))
                added.append(f"{so_far.name} = {op.steps.format(so_far.name, terms)};")
            case _:
                left.append(statement)
    return Terms(tuple(left), tuple(declared), tuple(added))
