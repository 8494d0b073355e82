"""Short rows beside column sums: how many of them a block walks side by side, and what it holds.

    rmsnorm of 64 columns, bf16    8 threads a row, 32 rows a turn, the loads of four turns together
    512                            32 threads a row, two vectors each, 8 rows, of two turns

What a turn reads comes to registers, and all that a thread sums stays there: no slots in shared
memory, and no barrier until the rows of the group are done. Where registers are few, the compiler
moves loads behind the work on what came before: half as many threads have more on their way.
"""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.short_rows import (
    MANY_GROUPS,
    MAX_HELD,
    MAX_HELD_BESIDE_ONE,
    is_short,
    rows_at_once,
    threads_beside,
    threads_of_row,
)
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.parameters import RowParameters
from thunder_fuser.schedule.residency import Residency, Row
from thunder_fuser.schedule.row_axes import RowAxes
from thunder_fuser.target import REGISTERS, Target, registers_among

IN_FLIGHT = 60 * 1024  # bytes of rows on their way to a multiprocessor's registers
MAX_BATCH = 4  # turns, of which a thread has the loads of all at once
SCRATCH = 28  # registers that a thread needs beside its rows and sums
SCRATCH_OF_A_SUM = 4
BUSY_THREADS = 512  # of a multiprocessor
SPILL_FREE = 120  # estimated registers beyond which such a kernel has been seen to spill


def side_by_side(axes: RowAxes, down: Sequence[TensorView]) -> int | None:
    """How many of the rows that `down` sums a block walks at once; None for one after another, as
    where they were not dealt out in runs, and for no sums."""
    threads = _preferred(axes, len(down))
    if not down or threads is None or axes.group.size == 1:
        return None
    dealt = [a.size for a in down[0].domain.logical if a.is_reduction and a.size != 1]
    if axes.is_uneven and len(dealt) == 1:
        return None
    return next(iter(rows_at_once(threads, dealt[-1])), None)


def _preferred(axes: RowAxes, sums: int) -> int | None:
    """Threads of a row, None for rows that are too long."""
    vectors = axes.vector.size
    if axes.group.size > MANY_GROUPS or (axes.is_shifted and is_short(vectors)):
        return threads_beside(vectors, sums)
    return threads_of_row(vectors) if is_short(vectors) else None


def of_sides(
    row: Row, count: int, sums: int, axes: RowAxes, target: Target, parameters: RowParameters
) -> Residency:
    """All that a turn of `count` rows reads in registers: where every block of the launch has room
    at once, with the loads of as many turns at a time as that leaves."""
    wanted = None if parameters.held is None else parameters.held // row.lanes
    most = MAX_HELD if is_short(row.vectors) and not axes.is_shifted else MAX_HELD_BESIDE_ONE
    threads = {threads_of_row(row.vectors, held) for held in range(1, most + 1)}
    most_first = sorted(threads, reverse=True)
    found = [_of_threads(row, t, count, sums, axes, target, parameters) for t in most_first]
    asked = [r for r in found if ceil_div(row.vectors, r.threads) == wanted]
    preferred = _preferred(axes, sums) if most > MAX_HELD else None
    liked = [r for r in found if r.threads == preferred]

    def worth(found: Residency) -> tuple[bool, int]:
        return found.blocks == _blocks(axes, found.threads * count, target), found.batch

    return max(asked or liked or found, key=worth)


def _blocks(axes: RowAxes, threads: int, target: Target) -> int:
    """Of a multiprocessor, one for each group, of so many threads; of many groups, whose blocks
    come after each other, as many as keep it busy."""
    several = ceil_div(axes.group.size, target.multiprocessors)
    return (
        several if axes.group.size <= MANY_GROUPS else min(several, max(BUSY_THREADS // threads, 1))
    )


def _summing(row: Row, held: int, sums: int) -> int:
    """Registers that a thread needs beside the loads of its turns."""
    return held * (sums * row.lanes + row.weights) + SCRATCH + SCRATCH_OF_A_SUM * sums


def _of_threads(
    row: Row,
    threads: int,
    count: int,
    sums: int,
    axes: RowAxes,
    target: Target,
    parameters: RowParameters,
) -> Residency:
    held = ceil_div(row.vectors, threads)
    wanted = _blocks(axes, threads * count, target)
    most = min(registers_among(wanted * threads * count), SPILL_FREE)
    summing = _summing(row, held, sums)
    loaded = held * row.loaded
    flying = ceil_div(IN_FLIGHT, max(4 * loaded * wanted * threads * count, 1))
    asked = min(flying, MAX_BATCH) if parameters.batch is None else parameters.batch
    batch = max(min((most - summing) // max(loaded, 1), asked, axes.turn.size), 1)
    taken = (summing + batch * loaded) * threads * count
    blocks = min(max(REGISTERS // taken, 1), wanted)
    return Residency(threads, frozenset(row.loads), blocks=blocks, weights=True, batch=batch)
