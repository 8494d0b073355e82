"""What a row has one of is computed once, before its vectors, or lanes that a map has in one row.

    T15_1: f32 = sub(T10_2, T12_row)        once T19_0: f32 = log(T17_row)
    T19_0: f32 = log(T17_row)               T15_1: f32 = sub(T10_2, T12_row)
    T21_0: f32 = sub(T15_1, T19_0)      =>  T21_0: f32 = sub(T15_1, T19_0)

A compiler moves out of the loop over lanes what is a single instruction, and leaves in it what asks
whether its argument is 0 or infinite, as a logarithm does. What is divided by such a value is
multiplied by parts of its reciprocal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from thunder_fuser.analysis.digits import Form
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.kernel.statements import (
    Assign,
    Expression,
    IndexValue,
    LaneStatement,
    Literal,
    Operand,
    Random,
    ReadElement,
    ReadSquare,
    ReadVector,
    Select,
    operands_of,
)


class RowValues:
    """Knows of what a row has one: the results of its reductions, what is made of them, of the
    kernel's scalars and of the vectors that are loaded `once`, and of indices without the axes that
    are `walked` in it. Of a column, whose rows are walked, all `lanes` have their own."""

    def __init__(
        self,
        walked: Iterable[IterDomain],
        once: Iterable[str],
        scalars: Iterable[str],
        *,
        lanes: bool = False,
    ) -> None:
        self.walked, self.once = frozenset(walked), frozenset(once)
        self.scalars, self.lanes = frozenset(scalars), lanes

    def repeats(self, value: Expression) -> bool:
        """True for one that is the same in all of a row."""
        match value:
            case ReadElement() | ReadSquare():  # a load stays where it is
                return False
            case ReadVector(vector, weight):
                return (self.lanes or weight == 0) and vector in self.once
            case IndexValue(form) | Random(index=form):
                forms: tuple[Form, ...] = (form,)
            case Select(windows):
                forms = tuple(window.form for window in windows)
            case _:
                forms = ()
        return self._are_fixed(*forms) and self._are_known(*operands_of(value))

    def _are_known(self, *operands: Operand) -> bool:
        return all(isinstance(o, Literal) or o.of_row or o.name in self.scalars for o in operands)

    def _are_fixed(self, *forms: Form) -> bool:
        return all(form.bases.isdisjoint(self.walked) for form in forms)


def split(
    statements: Sequence[LaneStatement],
) -> tuple[tuple[Assign, ...], tuple[LaneStatement, ...]]:
    """The statements of a scope that make such values, and the others."""
    once: list[Assign] = []
    others: list[LaneStatement] = []
    for statement in statements:
        if isinstance(statement, Assign) and statement.variable.of_row:
            once.append(statement)
        else:
            others.append(statement)
    return tuple(once), tuple(others)
