"""Running sums down few columns, whose rows pass through shared memory.

    T1[r, c] = cumsum(T0[r, c]), c{3}   a block has a stretch of memory, and a thread neighbouring
                                        rows of it, of one column

A row that is less than a line would be read by threads that lie in many lines at a time. As one
stretch, all rows of a block come in whole vectors, and leave so, wherever they begin. Rows of a
running sum along the innermost dim are columns of one element each: so are few long ones shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from math import prod

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.analysis.reductions import is_scan, scanned_dim
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.column_schedule import ColumnSchedule
from thunder_fuser.target import LINE, REGISTER_BYTES, Target

MIN_ROWS = 128  # of a column, up to which a thread has all of them
BLOCK_BYTES = 48 * 1024  # of the stretches of a block
THREADS = 256  # of it
ENOUGH = 3  # blocks of a multiprocessor, for which stretches are shorter
MOST_AT_ONCE = 6  # blocks of a multiprocessor
RESERVED_BYTES = 8 * 1024  # of it for what blocks meet in


def in_stretches(work: ColumnSchedule, target: Target) -> ColumnSchedule | None:
    """Threads side by side that have whole rows, which a block moves as one stretch, where a row is
    less than a line; None for others."""
    axes, rows = work.axes, work.axes.row.size
    width = {_behind(tv) for tv in work.long if is_scan(tv)}
    across = min(width) // axes.lanes
    staged = _dense(work, across) if len(width) == 1 else frozenset()
    narrow = min((tv.dtype.itemsize for tv in staged), default=LINE)
    if across * axes.lanes * narrow >= LINE or rows <= MIN_ROWS:
        return None
    down, row = THREADS // across, across * axes.lanes * _room(staged, work)
    tiles = ceil_div(axes.vector.size, across)
    enough = ceil_div(rows * tiles, ENOUGH * target.multiprocessors)
    step = max(REGISTER_BYTES // (narrow * axes.lanes), 1)
    batch = ceil_div(min(BLOCK_BYTES // row, enough), down * step)
    batch = (batch - 1 + batch % 2) * step or step  # an odd number of words: threads meet all banks
    at_once = (target.shared_bytes - RESERVED_BYTES) // (down * batch * row)
    return replace(
        work,
        threads_across=across,
        threads_down=down,
        splits=ceil_div(rows, down * batch),
        batch=batch,
        blocks_at_once=max(min(at_once, MOST_AT_ONCE), 1),
        staged=staged,
    )


def _behind(tv: TensorView) -> int:
    """Columns that lie side by side behind the dim that is scanned."""
    return prod(tv.shape[scanned_dim(tv) + 1 :])


def _dense(work: ColumnSchedule, across: int) -> frozenset[TensorView]:
    """What of the plane lies in rows of so many vectors one after another, and begins with one."""
    found = work.lies_as(work.axes.in_images(across))
    layouts = work.segment.layouts
    return frozenset(tv for tv in found if layouts[tv].alignment == MAX_ALIGNMENT)


def _room(staged: Iterable[TensorView], work: ColumnSchedule) -> int:
    """Bytes of shared memory for an element of the plane: a result takes the place of what is read
    of as many."""
    written = [store.target for store, _ in work.full if store.target in staged]
    read = Counter(tv.dtype.itemsize for tv in staged if tv not in written)
    stored = Counter(tv.dtype.itemsize for tv in written)
    return sum((read + (stored - Counter(set(read)))).elements())
