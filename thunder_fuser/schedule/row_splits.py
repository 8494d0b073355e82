"""Rows that several blocks share: too few to fill the machine, or too long for one block's turn.

    sum of 1 x 134217728     8192 blocks of a piece each, the last of which combines their sums

A block keeps nothing of its piece, so this is for sums that are only stored, or from which one
value a row is computed; what reads them at every element is another segment.
"""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.analysis.access import Index, demand
from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.residency import Residency, Row
from thunder_fuser.segment.segment import Segment
from thunder_fuser.target import Target

THREADS = 256  # of a block
IN_FLIGHT = 32  # registers of loads that a thread waits for at once
BLOCKS = 16  # rows of a multiprocessor from which on each may have a block of its own


def shared(row: Row, rows: int, target: Target) -> tuple[Residency, int] | None:
    """Where a block has its piece, and the pieces of a row; None for rows of one piece."""
    held = max(IN_FLIGHT // max(row.loaded, 1), 1)
    splits = ceil_div(row.vectors, held * THREADS)
    if splits < 2 or rows >= BLOCKS * target.multiprocessors:
        return None
    return Residency(THREADS, registers=frozenset(row.loads)), splits


def needs_results(
    segment: Segment, reductions: Sequence[TensorView], results: Sequence[tuple[TensorView, Index]]
) -> bool:
    """True where elements of a row are computed from what the row is reduced to."""
    found = demand(results, segment.leaves | set(reductions))
    return any(tv in reductions for tv, _ in found.leaves)
