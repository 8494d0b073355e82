"""Threads side by side that have whole rows of a plane, where no 32 of them do.

    T1[b, c] = sum(T0[b, r, c]), c{100}     25 threads have vectors of 4 of a row, the next 25 those
                                            of the row behind it: a warp reads one run of memory

Of 32 threads side by side seven would have vectors of other columns, far from there, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from math import prod

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.reductions import is_scan, scanned_dim
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.target import LINE, WARP

MOST = 3 * WARP  # threads abreast: blocks of more have few threads down a column
FULL = 9  # tenths of the threads, from which on a power of two of them does


def abreast(long: Sequence[TensorView], vector: int, lanes: int, across: int) -> int | None:
    """How many threads have whole rows of vectors of so many bytes, or equal parts of them, in
    place of `across`, if too many of these have no vector of the row. Rows of whole lines that lie
    far from each other may be shared by any."""
    rows = {_row(tv) for tv in long}
    row = min(rows) // lanes
    if rows != {row * lanes} or 10 * row >= FULL * ceil_div(row, across) * across:
        return None
    is_one = all(_columns(tv) == row * lanes for tv in long)
    if not is_one and row * vector % LINE == 0:
        return None
    return next((n for n in range(min(row, MOST), WARP // 2, -1) if row % n == 0), None)


def _row(tv: TensorView) -> int:
    """Columns that lie side by side behind the innermost dim that is summed, or scanned."""
    if is_scan(tv):
        return prod(tv.shape[scanned_dim(tv) + 1 :])
    inner = takewhile(lambda a: not a.is_reduction, reversed(tv.domain.logical))
    return prod(a.size for a in inner)


def _columns(tv: TensorView) -> int:
    return prod(tv.shape) // (tv.shape[scanned_dim(tv)] if is_scan(tv) else 1)
