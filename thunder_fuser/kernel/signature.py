"""What a kernel is given: the tensors and scalars that it has as parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thunder_fuser.dtypes import DataType


@dataclass(frozen=True)
class Pointer:
    """A tensor argument. A written one may also be read, so it gets no `__restrict__`."""

    name: str
    dtype: DataType
    is_written: bool
    is_read: bool


@dataclass(frozen=True)
class ScalarParameter:
    """A number that a launch is given."""

    name: str
    dtype: DataType


def print_parameters(pointers: Sequence[Pointer], scalars: Sequence[ScalarParameter]) -> str:
    """`T0: bf16*, s0: f32`."""
    given = [
        *(f"{p.name}: {p.dtype}*" for p in pointers),
        *(f"{s.name}: {s.dtype}" for s in scalars),
    ]
    return ", ".join(given)
