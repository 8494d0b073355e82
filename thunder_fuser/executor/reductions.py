"""Which reductions a region can hold.

[7, 130] over 1   =>  ROW     along the innermost axis: one kernel with what surrounds it
[7, 130] over 0   =>  SHORT   7 terms, combined by one thread in registers
[70, 13] over 0   =>  OUTER   long, and the innermost axis stays
[4, 2**20] over 1 =>  FEW     so few and so long rows that most of a GPU would idle
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from math import prod
from typing import Any

from thunder.core.dtypes import is_complex_dtype
from thunder.core.prims import PrimIDs
from thunder.core.proxies import NumberProxy
from thunder.core.symbol import BoundSymbol

from thunder_fuser.segment.reductions import MAX_SHORT_REDUCTION

MANY_ROWS = 64  # blocks that together come near the bandwidth of a GPU
MAX_LONE_ROW = 1 << 18  # elements that one block reduces in a few microseconds


class ReductionKind(Enum):
    """How a reduction relates to the axes of its operand; the value is what messages say."""

    SHORT = "reduces few elements"
    ROW = "reduces the innermost axis"
    OUTER = "reduces an outer axis"
    FEW = "reduces rows too few and too long for one block each"


_PRIMS = frozenset(
    {PrimIDs.SUM, PrimIDs.PROD, PrimIDs.AMAX, PrimIDs.AMIN, PrimIDs.VAR, PrimIDs.VAR_MEAN}
)
CLAIMED_KINDS = frozenset(ReductionKind)


def reduction_kind(shape: Sequence[Any], dims: Sequence[int]) -> ReductionKind:
    """The kind of a reduction over `dims`, whose extents are ints; others may be NumberProxies."""
    if prod(shape[d] for d in dims) <= MAX_SHORT_REDUCTION:
        return ReductionKind.SHORT
    sizable = [d for d, extent in enumerate(shape) if isinstance(extent, NumberProxy) or extent > 1]
    if sizable[-1] not in dims:
        return ReductionKind.OUTER
    kept = [shape[d] for d in sizable if d not in dims]
    are_few = not any(isinstance(n, NumberProxy) for n in kept) and prod(kept) < MANY_ROWS
    if are_few and prod(shape[d] for d in dims) > MAX_LONE_ROW:
        return ReductionKind.FEW
    return ReductionKind.ROW


def is_reduction(bsym: BoundSymbol) -> bool:
    """True for the reduction prims that regions hold: (operand, dims, ...)."""
    return bsym.sym.id in _PRIMS


def reduction_refusal(bsym: BoundSymbol) -> str | None:
    """Why a region cannot hold a reduction prim (operand, dims, ...), None if it can."""
    a, dims = bsym.args[0], bsym.args[1]
    reduced = [a.shape[d] for d in dims]
    if any(isinstance(extent, NumberProxy) for extent in reduced):
        return "it reduces an axis whose extent is not static"
    kind = reduction_kind(a.shape, dims)
    if kind not in CLAIMED_KINDS:
        return f"it {kind.value}"
    if kind is not ReductionKind.SHORT and is_complex_dtype(a.dtype):
        return f"it reduces {prod(reduced)} complex numbers; at most {MAX_SHORT_REDUCTION}"
    return None


def extremum_refusal(bsym: BoundSymbol) -> str | None:
    """As `reduction_refusal`; the extremum of nothing is torch's to refuse."""
    if 0 in bsym.args[0].shape:
        return "the extremum of no elements"
    return reduction_refusal(bsym)


def variance_refusal(bsym: BoundSymbol) -> str | None:
    """As `reduction_refusal`, for VAR and VAR_MEAN, whose `correction` must be a whole number."""
    a, dims, correction = bsym.args[0], bsym.args[1], bsym.kwargs["correction"]
    if is_complex_dtype(a.dtype):
        return "the variance of complex numbers"
    if isinstance(correction, NumberProxy) or correction != int(correction):
        return f"a correction of {correction} degrees of freedom, which is no constant integer"
    reason = reduction_refusal(bsym)
    if reason is None and correction >= prod(a.shape[d] for d in dims):
        return f"a correction of {correction} leaves no degrees of freedom"
    return reason
