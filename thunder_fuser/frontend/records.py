"""Records: what was called, canonical and immutable, so that equal definitions are equal tuples.

    T2 = fd.ops.sum(T0, [-1])    =>    Record("sum", (("dims", (1,)), ("dtype", None), ...), (T0,))

`attrs` hold every static argument in a fixed order with defaults filled in and dims wrapped;
`args` hold the operands by fid, None for one that was left out. The kinds of the results follow
from these, so they are kept beside the record (`Result`), not in it. Names, source positions and
the way a call was written are no part of a record.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from thunder_fuser.dtypes import DataType

Static: TypeAlias = "bool | int | str | DataType | tuple[Static, ...] | None"

TENSOR, SCALAR, VECTOR = "T", "S", "V"


class Ref(NamedTuple):
    """An operand: its kind (T, S or V) and its fid."""

    kind: str
    fid: int

    def __str__(self) -> str:
        return f"{self.kind}{self.fid}"


Arg: TypeAlias = "Ref | tuple[Ref, ...] | None"


class Record(NamedTuple):
    """One recorded step. Compare by equality only."""

    op: str
    attrs: tuple[tuple[str, Static], ...] = ()
    args: tuple[Arg, ...] = ()


class Result(NamedTuple):
    """A value made by a record: its kind, and the rank of a tensor or length of a vector."""

    kind: str
    size: int = 0


DEFINE_TENSOR = "define_tensor"
DEFINE_SCALAR = "define_scalar"
DEFINE_VECTOR = "define_vector"
ADD_OUTPUT = "add_output"
DEFINE_MESH = "define_mesh"
PLACE = "place"
END = Record("end")


def refs(record: Record) -> tuple[Ref, ...]:
    """The operands of a record, lists flattened, in order."""
    found: list[Ref] = []
    for arg in record.args:
        if isinstance(arg, Ref):
            found.append(arg)
        elif arg is not None:
            found.extend(arg)
    return tuple(found)
