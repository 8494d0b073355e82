"""Rows that no block keeps: too few to fill the machine, or too long.

    sum of 1 x 134217728     4096 blocks of a piece each, the last of which combines their sums
    running sum of 500 x 40000     a block walks a row a piece at a time, and carries on

A block keeps nothing of a row that is shared, so this is for sums that are only stored, or from
which one value a row is computed; what reads them at every element is another segment.
"""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.analysis.access import Element
from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.needs import needs_of
from thunder_fuser.schedule.rejected import Rejected
from thunder_fuser.schedule.residency import Residency, Row
from thunder_fuser.segment.segment import Segment
from thunder_fuser.target import MAX_THREADS, Target

THREADS = 256  # of a block
MANY = 1024  # pieces of a row, above which they are for large blocks: fewer tickets are drawn
MUCH = 8  # registers of what a thread loads of a vector, with weights, beyond which those of large
# blocks need so many that no two are on a multiprocessor, or spill
LARGE_BLOCKS = 2  # of a multiprocessor, which the compiler is told: with 33 registers it was one
SCANNING = 256  # of a block that walks a row: each adds what all warps come to
SCANNING_BLOCKS = 4  # on a multiprocessor: while the warps of some meet, others go on
SCANNED = 32  # registers that a thread fills with what it scans at a time
FEWEST = 4  # pieces, below which a block has them all as soon
IN_FLIGHT = 32  # registers of loads that a thread waits for at once
BLOCKS = 8  # rows of a multiprocessor from which on each may have a block of its own


def shared(row: Row, rows: int, target: Target) -> tuple[Residency, int] | None:
    """Where a block has its piece, all of it at once, and the pieces of a row; None for rows of one
    piece."""
    held = max(IN_FLIGHT // max(row.loaded, 1), 1)
    threads, splits = THREADS, ceil_div(row.vectors, held * THREADS)
    if splits < FEWEST or rows >= BLOCKS * target.multiprocessors:
        return None
    if splits <= MANY or row.loaded + row.weights > MUCH:
        return Residency(threads, registers=frozenset(row.loads)), splits
    splits = ceil_div(row.vectors, max(held // 2, 1) * MAX_THREADS)
    return Residency(MAX_THREADS, registers=frozenset(row.loads), blocks=LARGE_BLOCKS), splits


def walked(row: Row, scans: Sequence[TensorView]) -> tuple[Residency, int]:
    """Where a block has what it scans of a row that it cannot keep, and how many vectors a thread
    has at a time. Raises Rejected."""
    if len({tv.expr.attr("reverse") for tv in scans}) > 1:
        raise Rejected("running sums of two directions along rows too long to keep")
    chunk = max(SCANNED // max(row.loaded + row.scanned, 1), 1)
    where = Residency(SCANNING, registers=frozenset(row.loads), blocks=SCANNING_BLOCKS)
    return where, chunk


def needs_results(
    segment: Segment, reductions: Sequence[TensorView], results: Sequence[Element]
) -> bool:
    """True where elements of a row are computed from what the row is reduced to."""
    return any(tv in reductions for tv, _ in needs_of(segment, reductions, results).leaves)
