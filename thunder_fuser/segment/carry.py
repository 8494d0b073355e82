"""What travels between segments: the smallest value from which readers rebuild theirs bit by bit.

    T2: f32[i8] = cast(T1: bf16[i8])    T3 = segment_set(T2)   =>   T1 is stored, readers cast
    T4: bf16[i4, i8] = expand(T1)       T5 = segment_set(T4)   =>   T1 is stored, readers expand

A constant never travels: every segment writes the literal, or computes from the index.
"""

from __future__ import annotations

from math import prod

from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Cost, Family

_SOURCES = (Family.FULL, Family.IOTA)


def constants(fusion: Fusion) -> frozenset[TensorView]:
    """The tensors that depend on no data and cost next to nothing to compute."""
    found: set[TensorView] = set()
    for tv in fusion.tensors:
        expr = tv.definition
        if expr is None or expr.op.cost not in (Cost.FREE, Cost.CHEAP):
            continue
        if expr.op.family in _SOURCES or (expr.tensors and found.issuperset(expr.tensors)):
            found.add(tv)
    return frozenset(found)


def carried(tv: TensorView) -> TensorView:
    """The nearest tensor of the fewest bytes that `tv` is a free function of, else `tv` itself."""

    best = current = tv
    while current.definition is not None and current.definition.op.cost is Cost.FREE:
        if len(current.definition.tensors) != 1:
            break
        (source,) = current.definition.tensors
        if bytes_of(source) < bytes_of(best):
            best = source
        current = source
    return best


def bytes_of(tv: TensorView) -> int:
    """Bytes of a dense tensor of this shape."""
    return prod(tv.shape) * tv.dtype.itemsize
