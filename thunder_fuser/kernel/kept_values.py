"""What a kernel of kept columns computes once: shares of rows, and what phases leave for others.

T70 = where(T46, T69, T60)      T69 and T60 of the row, which the block left in shared memory
T72 = sum(T27 * T70)            T27 left in registers by this phase, for what is stored behind it
"""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.analysis.access import Element, demand
from thunder_fuser.kernel.elements import ElementWriter
from thunder_fuser.kernel.kept_ir import RowValues
from thunder_fuser.kernel.scopes import Held, Scope
from thunder_fuser.kernel.statements import Hold, Variable
from thunder_fuser.kernel.vectors import Accesses
from thunder_fuser.schedule.kept_values import RowShares

OWN = "own"  # the row, and the sample, that a thread makes the shares of


def shares_of_rows(writer: ElementWriter, shares: RowShares, across: int) -> RowValues | None:
    """What makes `shares` before the phases of a block of so many vectors: `writer` knows them from
    there. None where there are none."""
    if not shares.values:
        return None
    segment, tensors = writer.segment, writer.tensors
    accesses = Accesses(segment.layouts, None, tensors, None)
    inner = ElementWriter(segment, tensors, writer.scalars, accesses, writer.strict)
    inner.copies = writer.copies
    needs = demand(shares.values, segment.leaves)
    inner.request(needs)
    loads = accesses.group_loads()
    inner.evaluate(needs)
    samples, arrays, held = shares.samples(across), list[Held](), list[Hold]()
    for key in shares.values:
        value = inner.values[key]
        array = Held(f"{tensors[key[0]]}_rows", value.dtype)
        arrays.append(array)
        held.append(Hold(Variable(f"{array.name}[{OWN}]", value.dtype), value))
        writer.known[key] = Variable(of_row(array), value.dtype)
    scope = Scope(loads, (*inner.statements, *held))
    return RowValues(scope, tuple(arrays), samples, shares.vectors)


def of_row(array: Held) -> str:
    """The variable that a thread at a row has of an array of all rows."""
    return f"{array.name}_own"


def leave(writer: ElementWriter, left: Sequence[Sequence[Element]]) -> tuple[Held, ...]:
    """The arrays of what the scope of `writer` computed of each element that others will need."""
    found: list[Held] = []
    for alike in left:
        made = [key for key in alike if key in writer.values and key not in writer.known]
        if made:
            value = writer.values[made[0]]
            array = Held(f"{writer.tensors[alike[0][0]]}_held", value.dtype)
            place = Variable(f"{array.name}[k][{writer.accesses.lane_index}]", value.dtype)
            writer.known |= dict.fromkeys(alike, place)
            writer.statements.append(Hold(place, value))
            found.append(array)
    return tuple(found)
