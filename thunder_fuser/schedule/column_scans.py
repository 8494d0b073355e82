"""Threads and blocks of running sums down columns.

    T1[r, c] = cumsum(T0[r, c])     a thread has a vector of columns and rows one after another

A thread that has all of its rows in registers at once walks alone, and so do threads that fill
lines and are as many as keep memory busy: 151 x 577 x 768 take 71 us on an H200, and 82 together.
Of more rows those of a block have a batch each, one behind another, and blocks have one tile of
rows behind another. All add up their rows first, learn what lies before these from each other, and
go on from there, so that the plane is read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.abreast import abreast
from thunder_fuser.schedule.column_axes import ColumnAxes
from thunder_fuser.target import LINE, REGISTER_BYTES, WARP, Target

MAX_ALONE = 128  # threads of a block whose threads have all rows
SCANNED_BYTES = 8  # of a vector that is scanned: narrow ones leave more threads to walk
SCANNING_BLOCKS = 8  # of a multiprocessor, so that none has many more to scan than others
SCANNED_ROWS = 8  # that a thread loads at least before it scans them
SCANNED_FLIGHT = 48 * 1024  # bytes for which a multiprocessor waits at once, with more rows
SCANNED_REGISTERS = 128  # of loads that a thread has for it
SCANNED_SCRATCH = 40  # registers beside them, for places of rows that the last batch tests
SHARED_REGISTERS = 64  # of loads of a thread that shares columns
SHARED_SCRATCH = 12  # beside them
SHARING = 128  # threads of a block that share columns; of long chains up to four times as many
SINGLES, SINGLES_DOWN = 128, 2  # threads of a block of single elements of 16 bits, which then ends
# in few sectors that others have parts of: of 1335 x 50257 the sums take 116 us, not 140
SINGLE_ROWS = 32  # of each of them
FEW_ROWS = 2048  # of a column: a block has so few that more would wait for each other
WINDOW = 96  # blocks before one that it asks: they wait for the one in whose window they begin


@dataclass(frozen=True)
class Scanned:
    """Threads `across` a row and `down` the rows of a block, the blocks that share a column, and
    the rows of a thread, with so many registers beside those of what it loads."""

    across: int
    down: int
    splits: int
    batch: int
    scratch: int


def scanned(
    axes: ColumnAxes,
    long: Sequence[TensorView],
    loaded: int,
    narrow: int,
    target: Target,
    may_share: bool,
) -> Scanned:
    """How running sums are shared out, of rows that are so many registers `loaded` to a thread, of
    elements of `narrow` bytes or more."""
    rows, loaded, vector = axes.row.size, max(loaded, 1), axes.lanes * narrow
    across = min(WARP, max(LINE // vector, 1), axes.vector.size)
    whole = abreast(long, vector, axes.lanes, across)
    alone = _rows_alone(axes, loaded, target)
    flight = alone * axes.vector.size * loaded * REGISTER_BYTES
    are_many = flight >= SCANNED_FLIGHT * target.multiprocessors
    fill_lines = vector >= SCANNED_BYTES and whole is None
    if rows * loaded <= SCANNED_REGISTERS or not may_share or (are_many and fill_lines):
        return Scanned(_alone(axes, target), 1, 1, alone, SCANNED_SCRATCH)
    are_few = 2 * SHARING < rows <= FEW_ROWS and SINGLE_ROWS * loaded <= SHARED_REGISTERS
    if are_few and whole is None and vector < REGISTER_BYTES and axes.columns >= 8 * SINGLES:
        splits = ceil_div(rows, SINGLE_ROWS * SINGLES_DOWN)
        batch = ceil_div(rows, splits * SINGLES_DOWN)
        return Scanned(SINGLES, SINGLES_DOWN, splits, batch, SHARED_SCRATCH)
    across = whole if whole is not None and whole <= WARP else across
    most = max(SHARED_REGISTERS // loaded, 1)
    down = min(SHARING // across, ceil_div(rows, most))
    while rows > WINDOW * down * most and across * down <= 2 * SHARING:
        down *= 2  # fewer wait for each other
    splits = ceil_div(rows, down * most)
    return Scanned(across, down, splits, ceil_div(rows, splits * down), SHARED_SCRATCH)


def _alone(axes: ColumnAxes, target: Target) -> int:
    """Threads of a block that have all rows: large ones only where there are blocks enough."""
    across, enough = MAX_ALONE, SCANNING_BLOCKS * target.multiprocessors
    while across > WARP and ceil_div(axes.vector.size, across) < enough:
        across //= 2
    return across


def _rows_alone(axes: ColumnAxes, loaded: int, target: Target) -> int:
    """Rows, of so many registers each, that a thread loads before it scans them: more where a row
    of all columns is little for the machine, as nothing else keeps memory busy. All of its batches
    have about as many."""
    size, rows = max(axes.row.size, 1), SCANNED_ROWS
    row = axes.vector.size * loaded * REGISTER_BYTES
    enough = SCANNED_FLIGHT * target.multiprocessors
    while rows * row < enough and 2 * rows * loaded <= SCANNED_REGISTERS:
        rows *= 2
    return ceil_div(size, ceil_div(size, rows))
