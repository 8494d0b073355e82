"""Which values are computed for 16-bit results only."""

from __future__ import annotations

from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView


def ends_narrow(fusion: Fusion) -> frozenset[TensorView]:
    """The f32-computed tensors whose every use ends, through floating-point ops, in a returned or
    written f16 or bf16. An error of 2^-14 in one of them vanishes in the final rounding, unless a
    comparison, a jump (floor, remainder), an integer or a wider result depends on it."""
    roots = frozenset(fusion.roots)
    wide: set[TensorView] = set()
    for tv in reversed(fusion.tensors):
        is_float = tv.dtype.is_floating and tv.dtype is not DataType.Double
        if not is_float or (tv in roots and not tv.dtype.is_reduced_precision):
            wide.add(tv)
        if tv.definition is not None and (tv in wide or tv.definition.op.is_step):
            wide.update(tv.definition.tensors)
    return frozenset(tv for tv in fusion.tensors if tv not in wide)
