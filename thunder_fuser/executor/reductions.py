"""Which reductions a region can hold: those over static axes, of real numbers where they are long.

A short one is combined by one thread in registers; it may be computed again elsewhere. A long one
is computed once, and what template reduces it is not decided here.
"""

from __future__ import annotations

from math import prod

from thunder.core.dtypes import is_boolean_dtype, is_complex_dtype, is_exact_dtype
from thunder.core.prims import PrimIDs
from thunder.core.proxies import NumberProxy
from thunder.core.symbol import BoundSymbol

from thunder_fuser.analysis.reductions import MAX_REPEATED, MAX_SHORT_REDUCTION
from thunder_fuser.analysis.shared_rows import CLUSTERED_BYTES
from thunder_fuser.target import LARGE_CLUSTER

MAX_ROW = 24  # elements of a row of which a second kernel rather computes anew what a first one
# would store: of 9 in 16 bits two floats are as much as half of the row
LONG_COLUMN = 256  # terms of a column, of which a kernel that keeps them is slower than one that
# reads them with no sums to wait for: 82 -> 68 us of 512, 77 -> 69 of 256
LONG_ROW = LARGE_CLUSTER * CLUSTERED_BYTES // 2  # terms of a row: a cluster keeps fewer of 16 bits

_PRIMS = frozenset(
    getattr(PrimIDs, name) for name in ("SUM", "PROD", "AMAX", "AMIN", "STD", "VAR", "VAR_MEAN")
)


def is_reduction(bsym: BoundSymbol) -> bool:
    """True for the reduction prims that regions hold: (operand, dims, ...)."""
    return bsym.sym.id in _PRIMS


def is_repeatable(bsym: BoundSymbol) -> bool:
    """True for a reduction prim, over static axes, that costs less to compute twice than to
    keep."""
    return _terms(bsym) <= MAX_REPEATED


def is_read_again(bsym: BoundSymbol) -> bool:
    """True for a reduction prim, over static axes, of rows or columns that nothing keeps until what
    follows from it."""
    shape, dims = tuple(bsym.args[0].shape), set(bsym.args[1])
    if any(isinstance(n, NumberProxy) for n in shape):
        return False
    sizable = [d for d, n in enumerate(shape) if n != 1]
    is_along = bool(sizable) and sizable[-1] in dims
    return _terms(bsym) >= (LONG_ROW if is_along else LONG_COLUMN)


def short_row(bsym: BoundSymbol) -> tuple[object, ...] | None:
    """The shape of the rows that a reduction prim walks, if they are short; None for others."""
    a, dims = bsym.args[0], bsym.args[1]
    is_along = a.ndim > 0 and tuple(dims) == (a.ndim - 1,)
    return tuple(a.shape) if is_along and _terms(bsym) <= MAX_ROW else None


def reduction_refusal(bsym: BoundSymbol) -> str | None:
    """Why a region cannot hold a reduction prim (operand, dims, ...), None if it can."""
    a, dims = bsym.args[0], bsym.args[1]
    if a.ndim == 0 and dims:  # as torch lets one write
        return "it reduces a dim of a tensor that has none"
    if any(isinstance(a.shape[d], NumberProxy) for d in dims):
        return "it reduces an axis whose extent is not static"
    if is_complex_dtype(a.dtype) and _terms(bsym) > MAX_SHORT_REDUCTION:
        return f"it reduces {_terms(bsym)} complex numbers; at most {MAX_SHORT_REDUCTION}"
    return None


def extremum_refusal(bsym: BoundSymbol) -> str | None:
    """As `reduction_refusal`; the extremum of nothing is torch's to refuse."""
    if 0 in bsym.args[0].shape:
        return "the extremum of no elements"
    return reduction_refusal(bsym)


def position_refusal(bsym: BoundSymbol) -> str | None:
    """Why a region cannot hold ARGMAX or ARGMIN (operand, dim or None), None if it can."""
    a, dim = bsym.args
    dims = range(a.ndim) if dim is None else (dim,)
    if is_complex_dtype(a.dtype) or is_boolean_dtype(a.dtype):
        return f"the place of an extremum of {a.dtype}"
    if a.ndim == 0:
        return "it reduces a dim of a tensor that has none"
    if any(isinstance(a.shape[d], NumberProxy) for d in dims):
        return "it reduces an axis whose extent is not static"
    return "the extremum of no elements" if 0 in a.shape else None


def variance_refusal(bsym: BoundSymbol) -> str | None:
    """As `reduction_refusal`, for STD, VAR, VAR_MEAN; `correction` must be a whole number."""
    correction = bsym.kwargs["correction"]
    if is_complex_dtype(bsym.args[0].dtype):
        return "the variance of complex numbers"
    if is_exact_dtype(bsym.args[0].dtype):
        return "the variance of integers, which torch refuses"
    if isinstance(correction, NumberProxy) or correction != int(correction):
        return f"a correction of {correction} degrees of freedom, which is no constant integer"
    reason = reduction_refusal(bsym)
    if reason is None and correction >= _terms(bsym):
        return f"a correction of {correction} leaves no degrees of freedom"
    return reason


def _terms(bsym: BoundSymbol) -> int:
    """How many elements make one result."""
    return int(prod(bsym.args[0].shape[d] for d in bsym.args[1]))
