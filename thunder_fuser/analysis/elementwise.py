"""Integers that are computed element by element from memory and places, wherever they are used.

    T1 = lt(T0, 0); T2 = where(T1, 9, 0); T3 = add(T0, T2)     T3, an index that may be negative

A kernel that puts T3 in order computes it where it reads T0, as often as it does: that is cheaper
than a launch which stores it.
"""

from __future__ import annotations

from collections.abc import Container

from thunder_fuser.analysis.views import is_stop
from thunder_fuser.ir.fusion import topological
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Family


def is_elementwise(tv: TensorView, leaves: Container[TensorView] = ()) -> bool:
    """True for a tensor in memory, an input or one of `leaves`, and for what follows so from
    such."""
    return all(
        made.definition is None or made in leaves or _is_step(made)
        for made in topological([tv], leaves)
    )


def _is_step(tv: TensorView) -> bool:
    is_plain = tv.family in (Family.POINTWISE, Family.VIEW, Family.FULL, Family.IOTA)
    return is_plain and not is_stop(tv) and not tv.dtype.is_floating and not tv.dtype.is_complex
