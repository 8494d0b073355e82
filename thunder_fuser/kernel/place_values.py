"""What there is one of per column, left in shared memory for threads that are at rows.

T9[r, c] = T0[r, c] * rsqrt(T4[c] / 512)      rsqrt(T4[c] / 512) once per column, not per element
"""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.analysis.access import Element
from thunder_fuser.dtypes import DataType
from thunder_fuser.kernel.elements import ElementWriter
from thunder_fuser.kernel.image_ir import PlaceArray
from thunder_fuser.kernel.statements import Hold, LaneStatement, Variable


def left_at_places(
    writer: ElementWriter, keys: Sequence[Element], across: int
) -> tuple[tuple[PlaceArray, ...], list[LaneStatement]]:
    """Statements that leave the values of `keys` in arrays, from which they are known to `writer`
    in the scopes behind: a value of several once. What is a literal is known as that."""
    here = writer.accesses.lane_index
    own = "place" if writer.accesses.lane is None else f"lane * {across} + place"
    counts: dict[DataType, int] = {}
    held, left = list[LaneStatement](), dict[Variable, Variable]()
    for key in keys:
        value = writer.values[key]
        if not isinstance(value, Variable):
            writer.known[key] = value
            continue
        if value not in left:
            dtype = value.dtype
            number = counts.setdefault(dtype, 0)
            name, counts[dtype] = _array(dtype), number + 1
            held.append(Hold(Variable(f"{name}_at[{own}].v[{number}]", dtype), value))
            left[value] = Variable(f"{name}[{here}].v[{number}]", dtype)
        writer.known[key] = left[value]
    return tuple(PlaceArray(_array(t), t, count) for t, count in counts.items()), held


def _array(dtype: DataType) -> str:
    return f"{dtype}_known"
