"""Short rows that blocks walk through shared memory, a stretch of neighbours in each turn.

    gradient of a norm of 50 columns, bf16     4 threads a row, 64 rows a turn, 263 blocks
    norm of 257                                a warp a row, 8 rows a turn, 394 blocks
    of a bias of 8 x 17 x 17, 29025 images     2 threads a row, all 136 rows of one, 393 blocks
    running sums of 63                         4 threads a row, a run of 16 elements each

The stretches of the next turns are on their way while a block works on one, and what each row has
one of, such as its mean, comes with them. Memory sees whole lines however long a row is, and no
thread asks for any. Two turns of a block are on their way, of more the machine was slower.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import prod

from thunder_fuser.analysis.digits import Form, atom, ceil_div, combine, divmod_form
from thunder_fuser.analysis.layout import MAX_ALIGNMENT, bytes_of
from thunder_fuser.analysis.reductions import is_scan, sides_of
from thunder_fuser.analysis.short_rows import (
    THREADS,
    Share,
    is_much,
    share_alone,
    share_beside,
    share_of,
    share_of_sides,
    share_scanned,
)
from thunder_fuser.ir.domain import axis
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.parameters import RowParameters
from thunder_fuser.schedule.residency import PREFERRED, RESERVED_BYTES, Residency
from thunder_fuser.schedule.row_axes import RowAxes, is_of_row
from thunder_fuser.schedule.row_reads import SMALL
from thunder_fuser.schedule.row_schedule import RowWork
from thunder_fuser.schedule.staged import Reads, lanes_of, lies_in_plane, moved_rows
from thunder_fuser.segment.segment import Segment
from thunder_fuser.target import BANK, BANKS, REGISTERS, WARP, Target

APART = (1, 2, 4, 8)  # rows, up to the warps of a block
MIN_SLOTS = 2  # stretches of a tensor in a block: one is worked on, others come
MIN_BLOCKS = 2
COUNT = 4  # bytes, of each column whose rows' values are counted
SCRATCH = 32  # registers that a thread needs beside its elements
MAX_BLOCKS = 6  # of a multiprocessor, without sums


def beside_sums_in_stretches(
    segment: Segment, down: Sequence[TensorView], axes: RowAxes, target: Target
) -> RowAxes | None:
    """The axes of rows that were dealt to blocks in such stretches, for the sums `down` their
    columns; None where they were not."""
    dealt = [a.size for a in down[0].domain.logical if a.is_reduction and a.size != 1]
    if not target.copies_stretches or axes.group.size == 1:
        return None
    itemsize = _itemsize(segment, axes)
    shares = [share_beside(axes.columns, itemsize, is_stored) for is_stored in (True, False)]
    share = next((s for s in shares if s is not None and [s.rows] == dealt[-1:]), None)
    return None if share is None else axes.staged(share).side_by_side(share.rows)


def of_images_in_stretches(
    segment: Segment, down: Sequence[TensorView], axes: RowAxes, target: Target
) -> RowAxes | None:
    """The axes of a block that has the same rows of one image after the other, in turns, with the
    sums `down` of each of them; None where they were not dealt out so."""
    found = {sides_of(tv) for tv in down}
    sides = found.pop()
    if sides is None or found or axes.turn.size == 1 or axes.group.size % sides:
        return None
    if not target.copies_stretches:
        return None
    kept = axes.keeping_sides(sides)
    share = share_of_sides(kept.sides, kept.columns, _itemsize(segment, kept))
    return None if share is None else kept.staged(share)


def alone_in_stretches(
    segment: Segment, long: Sequence[TensorView], axes: RowAxes, target: Target
) -> RowAxes | None:
    """The axes of rows without such sums, dealt to as many blocks as run at a time; None for those
    that are whole vectors, longer than a warp has, or too few."""
    share = _share_alone(segment, long, axes, target)
    lanes = MAX_ALIGNMENT // _itemsize(segment, axes)
    is_worth = axes.columns % lanes and is_much(axes.rows * axes.columns, target.multiprocessors)
    if share is None or share.threads > WARP or not is_worth:
        return None
    scans = sum(map(is_scan, long))
    runs, blocks = (
        ceil_div(axes.rows, share.rows),
        _blocks_alone(segment, scans, axes, share, target),
    )
    turns = ceil_div(runs, blocks * target.multiprocessors)
    group, turn, side = axis(ceil_div(runs, turns)), axis(turns), axis(share.rows)
    run = combine(atom(turn), atom(group), group.size)
    row = combine(run, atom(side), side.size)
    return replace(axes.staged(share), group=group, turn=turn, side=side, row=row)


def of_stretches(
    work: RowWork, reads: Reads, target: Target, parameters: RowParameters
) -> Residency | None:
    """Slots for the stretches of as many turns as keep memory busy. What is of rows and repeats,
    such as a bias of attention scores, comes from a cache, to registers too. None where something
    lies otherwise than row after row, or there is no room."""
    segment, axes, full = work.segment, work.axes, work.full
    assert axes.side is not None
    assert axes.share is not None
    if work.places:
        return None
    count, whole = axes.sides, axes.rows * axes.columns
    of_rows = [(tv, offset) for tv, offset in reads if is_of_row(offset, axes)]
    held, taken = dict(of_rows), dict(m for m in of_rows if prod(m[0].shape) == whole)
    are_cached = all(SMALL * prod(tv.shape) <= whole for tv in held.keys() - taken.keys())
    are_neighbours = divmod_form(axes.dealt.form, count)[1] == atom(axes.side)
    moved = moved_rows(segment, axes, [m for m in of_rows if m[0] in taken], full)
    are_whole = all(
        prod(tv.shape) == whole and _begin_whole(axes, axes.columns, tv) for tv, _ in moved
    )
    each = frozenset(tv for tv, offset in reads if _is_one_a_row(segment, axes, tv, offset))
    if not ((taken or each) and are_cached and are_neighbours and are_whole):
        return None
    is_whole = all(count * axes.columns % lanes_of(tv) == 0 for tv, _ in moved)
    if not (is_whole and all(lies_in_plane(segment, axes, *m) for m in moved)):
        return None
    read = count * (axes.columns * bytes_of(taken) + bytes_of(each))
    blocks = ceil_div(axes.group.size, target.multiprocessors)
    if work.columns.reductions:  # those of samples come after each other
        blocks = min(blocks, axes.share.blocks)
    room = (target.shared_bytes - RESERVED_BYTES) // blocks
    room -= COUNT * len(work.columns.counts) * axes.columns
    room -= count * axes.columns * bytes_of(s.target for s, _ in full)
    wanted = min(1 + parameters.slots, axes.turn.size + 1)
    if room < MIN_SLOTS * read:
        return None
    itemsize = min(tv.dtype.itemsize for tv, _ in moved)
    apart = _apart(axes, axes.share, itemsize)
    return Residency(
        axes.share.threads,
        frozenset(held),
        slots=min(wanted, room // read),
        blocks=blocks,
        weights=True,
        gathered=each,
        apart=apart,
    )


def _blocks_alone(segment: Segment, scans: int, axes: RowAxes, share: Share, target: Target) -> int:
    """Of a multiprocessor: registers hold the elements of the plane, the weights and what `scans`
    come to, the first of them in the place of what it sums, and shared memory the stretches."""
    columns = axes.columns
    read, stored = _of_plane(segment, axes)
    held = len(read) + sum(prod(tv.shape) == columns for tv in segment.inputs)
    held += max(scans - 1, 0)
    once = bytes_of(tv for tv in segment.inputs if prod(tv.shape) == axes.rows)
    of_turn = columns * bytes_of(read) + once
    of_block = share.rows * ((1 + PREFERRED.slots) * of_turn + columns * bytes_of(stored))
    room = min(
        REGISTERS // (THREADS * (SCRATCH + held * share.held)),
        (target.shared_bytes - RESERVED_BYTES) // of_block,
    )
    return max(min(room, MAX_BLOCKS), MIN_BLOCKS)


def _share_alone(
    segment: Segment, long: Sequence[TensorView], axes: RowAxes, target: Target
) -> Share | None:
    """What a thread has of rows without sums down their columns, where GPUs copy stretches in the
    background: stored, scanned or only read."""
    read, stored = _of_plane(segment, axes)
    if not target.copies_stretches:
        return None
    if any(map(is_scan, long)):
        return share_scanned(axes.columns, _itemsize(segment, axes))
    if not long:
        return _share_plain(axes.columns, _itemsize(segment, axes), len(read), len(stored))
    if stored:
        return share_of(axes.columns, _itemsize(segment, axes))
    return share_alone(axes.columns, _itemsize(segment, axes), len(read))


def _share_plain(columns: int, itemsize: int, read: int, stored: int) -> Share | None:
    """The same of rows of which nothing is reduced, so that a thread need not keep them: of long
    ones as much as if they were only read."""
    found = share_alone(columns, itemsize, read + stored)
    return found or share_alone(columns, itemsize, max(read, 1))


def _itemsize(segment: Segment, axes: RowAxes) -> int:
    """Of the narrowest elements that are read of the plane, else stored, in bytes."""
    read, stored = _of_plane(segment, axes)
    return min((tv.dtype.itemsize for tv in read or stored), default=MAX_ALIGNMENT)


def _of_plane(segment: Segment, axes: RowAxes) -> tuple[list[TensorView], list[TensorView]]:
    """What is read and what is stored of the size of the plane."""
    plane = axes.rows * axes.columns
    read = [tv for tv in segment.inputs if prod(tv.shape) == plane]
    return read, [s.target for s in segment.stores if prod(s.target.shape) == plane]


def _is_one_a_row(segment: Segment, axes: RowAxes, tv: TensorView, offset: Form) -> bool:
    """True for one element of each row, which lie row after row; those of a turn fill vectors."""
    is_aligned = segment.layouts[tv].alignment == MAX_ALIGNMENT
    fills = axes.sides * tv.dtype.itemsize % MAX_ALIGNMENT == 0 and _begin_whole(axes, 1, tv)
    return offset == axes.row and prod(tv.shape) == axes.rows and is_aligned and fills


def _begin_whole(axes: RowAxes, per_row: int, tv: TensorView) -> bool:
    """True where the samples of what has so many elements a row begin with a vector, if their last
    turns have fewer rows."""
    size = per_row * tv.dtype.itemsize
    return axes.sample is None or axes.sample.extent * size % MAX_ALIGNMENT == 0


def _apart(axes: RowAxes, share: Share, itemsize: int) -> int:
    """How far apart the rows of a warp are, whose threads then meet the fewest banks of shared
    memory together: rows of about a line begin in the same one."""
    width, threads = share.lanes * itemsize, share.threads
    step = share.held if share.runs else share.lanes
    together = min(BANKS * BANK // width, WARP)

    def meetings(apart: int) -> int:
        places = (divmod(t, threads) for t in range(together))
        starts = ((row * apart * axes.columns + p * step) * itemsize for row, p in places)
        words = {(s + byte) // BANK for s in starts for byte in range(0, width, BANK)}
        return max(Counter(word % BANKS for word in words).values())

    warps = ceil_div(axes.sides * threads, WARP)
    return min((apart for apart in APART if warps % apart == 0), key=meetings)
