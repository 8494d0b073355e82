"""Elements of vectors of integers, and the statements that read or compute them.

index of place
  T0_0: i64 = T0[place]
  T1_0: bool = lt(T0_0, 0)
  ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thunder_fuser.analysis.access import demand
from thunder_fuser.analysis.digits import Form, atom
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.domain import IterDomain, axis
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.elements import ElementWriter
from thunder_fuser.kernel.names import Names
from thunder_fuser.kernel.statements import (
    LaneStatement,
    Operand,
    forms_of,
    print_statement,
)
from thunder_fuser.kernel.vectors import Accesses
from thunder_fuser.segment.segment import Segment

INDEX = "index"  # the function of the place in a kernel's text


@dataclass(frozen=True, eq=False)
class Index:
    """What an index has at any `place`: a value that `before` computes."""

    place: IterDomain
    before: tuple[LaneStatement, ...]
    value: Operand

    @property
    def names(self) -> dict[IterDomain, str]:
        return {self.place: "place"}

    @property
    def reach(self) -> int:
        """The largest absolute value of an offset."""
        forms = (form for statement in self.before for form in forms_of(statement))
        return max((self.place.size, *(form.reach for form in forms)))

    def __str__(self) -> str:
        steps = (f"\n    {print_statement(s, self.names)}" for s in self.before)
        return f"  index of place{''.join(steps)}"


def index_of(segment: Segment, names: Names, tv: TensorView, strict: bool) -> Index:
    """The elements of a vector that is in memory, or computed of what is element by element.
    `strict` keeps every rounding of the trace."""
    place = axis(tv.shape[0])
    before, (value,) = integers_at(segment, names, tv, [atom(place)], strict)
    return Index(place, before, value)


def integers_at(
    segment: Segment, names: Names, tv: TensorView, places: Sequence[Form], strict: bool
) -> tuple[tuple[LaneStatement, ...], list[Operand]]:
    """The elements of a vector of integers at `places`."""
    accesses = Accesses(segment.layouts, None, names.tensors, streams=False)
    writer = ElementWriter(segment, names.tensors, names.scalars, accesses, strict)
    found: list[Operand] = []
    for place in places:
        needs = demand([(tv, (place,))], segment.leaves)
        writer.request(needs)
        writer.evaluate(needs)
        found.append(writer.convert(tv, writer.values[tv, (place,)], DataType.Int))
    return tuple(writer.statements), found
