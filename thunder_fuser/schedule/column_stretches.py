"""Running sums down few columns, whose rows pass through shared memory.

    T1[r, c] = cumsum(T0[r, c]), c{3}   a block has a stretch of memory, and a thread neighbouring
                                        rows of it, of one column

A row that is less than a line would be read by threads that lie in many lines at a time. As one
stretch, all rows of a block come in whole vectors, and leave so, wherever they begin. Of few
columns a thread has all, and takes whole vectors out of the stretch: eight rows of three at a time.
Rows of a running sum along the innermost dim are columns of one element each: so are few long ones
shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import gcd, prod

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.analysis.reductions import is_scan, scanned_dim
from thunder_fuser.ir.domain import axis
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.column_axes import ColumnAxes
from thunder_fuser.schedule.column_schedule import ColumnSchedule
from thunder_fuser.schedule.vector_axes import lane_of
from thunder_fuser.target import LINE, REGISTER_BYTES, Target

MIN_ROWS = 128  # of a column, up to which a thread has all of them
BLOCK_BYTES = 64 * 1024  # of the stretches of a block: fewer blocks wait for each other less
THREADS = 256  # of it
ENOUGH = 3  # blocks of a multiprocessor, for which stretches are shorter
MOST_AT_ONCE = 8  # blocks of a multiprocessor
RESERVED_BYTES = 1536  # beside those and two rooms for sums of all threads
FEW_COLUMNS = 8  # of which a thread has whole rows
RUN_BYTES = 128  # of a tensor that a thread takes out of a stretch at once


def in_stretches(
    work: ColumnSchedule, whole: ColumnSchedule | None, target: Target
) -> ColumnSchedule | None:
    """Threads side by side that have whole rows, which a block moves as one stretch, where a row is
    less than a line; None for others. Of few columns a thread has `whole` rows, so many at a time
    that all of them are aligned."""
    axes, rows = work.axes, work.axes.row.size
    if rows <= MIN_ROWS:
        return None
    columns = columns_behind(work.long)
    if columns is None or not (staged := _dense(work, columns)):
        return None
    if columns * max(tv.dtype.itemsize for tv in staged) >= LINE:
        return None
    if whole is not None and (run := _run(whole, staged)) > 1:
        return _dealt(whole, staged, run, run, target)
    narrow = min(tv.dtype.itemsize for tv in staged)
    step = max(REGISTER_BYTES // (narrow * axes.lanes), 1)
    return _dealt(work, staged, step, 1, target)


def whole_rows(axes: ColumnAxes, long: Sequence[TensorView]) -> ColumnAxes | None:
    """The axes where a thread has all columns of a row, if they are few."""
    columns = columns_behind(long)
    if columns is None or columns > FEW_COLUMNS:
        return None
    return ColumnAxes(axis(axes.columns // columns), lane_of(columns), axis(axes.row.size))


def columns_behind(long: Sequence[TensorView]) -> int | None:
    """Columns that lie side by side behind the dim that is scanned."""
    found = {prod(tv.shape[scanned_dim(tv) + 1 :]) for tv in long if is_scan(tv)}
    return found.pop() if len(found) == 1 else None


def _dealt(
    work: ColumnSchedule, staged: frozenset[TensorView], step: int, run: int, target: Target
) -> ColumnSchedule:
    """Threads and their rows: an odd number of steps, so that they meet all banks."""
    axes, rows = work.axes, work.axes.row.size
    across = (columns_behind(work.long) or 1) // axes.lanes
    row = across * axes.lanes * _room(staged, work)
    down = min(THREADS // across, ceil_div(rows, step))
    tiles = ceil_div(axes.vector.size, across)
    enough = ceil_div(rows * tiles, ENOUGH * target.multiprocessors)
    batch = ceil_div(min(BLOCK_BYTES // row, enough, rows), down * step)
    batch = (batch - 1 + batch % 2) * step
    block = down * batch * row + 2 * down * across * work.states + RESERVED_BYTES
    at_once = target.shared_bytes // block
    return replace(
        work,
        threads_across=across,
        threads_down=down,
        splits=ceil_div(rows, down * batch),
        batch=batch,
        blocks_at_once=max(min(at_once, MOST_AT_ONCE), 1),
        staged=staged,
        run=run,
    )


def _run(work: ColumnSchedule, staged: frozenset[TensorView]) -> int:
    """Rows that are whole vectors of memory wherever they begin; one where none are, or others lie
    beside them."""
    axes = work.axes
    sizes = [tv.dtype.itemsize for tv in staged]
    run = max(MAX_ALIGNMENT // gcd(axes.lanes * size, MAX_ALIGNMENT) for size in sizes)
    is_aligned = (axes.vector.size == 1 and not work.is_reversed) or axes.row.size % run == 0
    fits = run * axes.lanes * max(sizes) <= RUN_BYTES
    return run if is_aligned and fits and len(staged) == len(work.of_plane) else 1


def _dense(work: ColumnSchedule, columns: int) -> frozenset[TensorView]:
    """What of the plane lies in rows of so many columns one after another, and begins with one."""
    found = work.lies_as(work.axes.in_images(columns // work.axes.lanes))
    layouts = work.segment.layouts
    return frozenset(tv for tv in found if layouts[tv].alignment == MAX_ALIGNMENT)


def _room(staged: Iterable[TensorView], work: ColumnSchedule) -> int:
    """Bytes of shared memory for an element of the plane: a result takes the place of what is read
    of as many."""
    written = [store.target for store, _ in work.full if store.target in staged]
    read = Counter(tv.dtype.itemsize for tv in staged if tv not in written)
    stored = Counter(tv.dtype.itemsize for tv in written)
    return sum((read + (stored - Counter(set(read)))).elements())
