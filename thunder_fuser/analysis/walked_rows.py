"""Rows that are walked with sums down their columns: how many blocks share one, and how many rows
are on the machine at a time.

    gradient of rmsnorm, 16384 columns of bf16    one block; the next rows fill its shared memory
    32768                                         a cluster of two
    50257                                         of eight, two blocks a multiprocessor
    beside that of x + y, 50257                   of eight, one block a multiprocessor
    262144                                        of sixteen, on a GPU that has so large ones

The rows are dealt out before a schedule knows registers and shared memory exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod

from thunder_fuser.analysis.counts import is_counted
from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.layout import MAX_ALIGNMENT, registers_of
from thunder_fuser.analysis.reductions import inputs_of_size, is_long, row_shape
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Family
from thunder_fuser.target import (
    LARGE_CLUSTER,
    WARP,
    clusters_at_once,
    clusters_up_to,
    registers_among,
)

THREADS = 1024  # of a multiprocessor that walk rows, as schedule/walking.py has them
MIN_BLOCKS = 2  # of a multiprocessor
PAIR = 2  # blocks, which wait for each other less than more of them, even alone on a multiprocessor
MIN_BLOCK = 128  # threads of one
MIN_PAIRED, MAX_PAIRED = 224, 320  # threads with two vectors of a row each: of such four or three
# blocks are on a multiprocessor, for two with a vector each
MAX_BLOCKS = 8  # of short rows, of which a block mostly waits for the sums
SCRATCH, SCRATCH_OF_A_SUM = 24, 8  # registers of a thread that sums down the columns
MAX_VECTORS = 3072  # of a row in one block: two tensors' next rows fill the shared memory
MAX_SUMMED = 4096  # of them, times the sums down its columns: they fill the registers
MAX_ALONE = 2560  # vectors of a row that one block has where a cluster could: of more it spills
MAX_BYTES = 52 * 1024  # of a row in a block of a cluster: two rows in each of two blocks
MAX_BYTES_OF_MORE = 36 * 1024  # of a row that more than two blocks share: beside those and weights
# the next row of both in the L1 cache, through which it comes
MAX_BYTES_ALONE = 64 * 1024  # of a row in a block alone on its multiprocessor, with weights: four
# of 74 KB took 365 us for the 243 of eight of 37
MAX_SUMS = 16 * 1024  # of a block of a cluster: those of two fill half of the registers
MIN_WALKED = 192 * 1024  # bytes read of a plane of longer rows, per multiprocessor: of fewer the
# turns of a block, which wait for each other, take longer than reading it again
FEW_BLOCKS = 2  # multiprocessors to a block that walks: of fewer blocks two launches are faster
LAST = 0.5  # of a turn of the whole machine takes one of a few clusters, one of half of them all
PARTIAL = 8  # bytes that a partial sum costs, which is written and read
BEGIN = 1  # turn that could be walked while a cluster or a block waits for its first one


@dataclass(frozen=True)
class WalkedRow:
    """A row of `columns`, read of tensors whose elements have `itemsizes`, those that are read
    `again` behind its sums too, with so many `sums` down each column. What it is reduced to
    `is_sent` from block to block: a word or two. One that is gathered is not `is_plain`: such rows
    do not pass through shared memory side by side, nor do they begin in a lane of a plane. Of some
    something `is_stored`. The threads of a block meet so many times in a turn, and `counted` of the
    sums are in shared memory."""

    columns: int
    itemsizes: Sequence[int]
    sums: int
    again: Sequence[int] = ()
    is_sent: bool = True
    is_plain: bool = True
    is_stored: bool = True
    meets: int = 1
    counted: int = 0

    @property
    def lanes(self) -> int:
        """Elements in a vector, as it is read."""
        return MAX_ALIGNMENT // min(self.itemsizes, default=4)

    @property
    def vectors(self) -> int:
        return self.columns // self.lanes

    def is_worth_a_walk(self, rows: int, multiprocessors: int) -> bool:
        """True where so many rows are no short ones that are read again as fast."""
        return rows * self.columns * sum(self.itemsizes) >= MIN_WALKED * multiprocessors


def walked_row(plane: tuple[int, int] | None, fusion: Fusion, sums: int) -> WalkedRow:
    """A row of a plane, with so many sums down its columns."""
    rows, columns = plane or (0, 0)
    read = inputs_of_size(fusion, rows * columns)
    along = [t for t in fusion.tensors if is_long(t) and row_shape(t) == plane]
    again = {*topological(along)}.intersection(read)
    is_sent = all(t.expr.op.state_size == 1 for t in along)
    gathered = (t for t in fusion.tensors if t.family is Family.GATHER)
    is_plain = all(prod(t.shape) != rows * columns for t in gathered)
    itemsizes, twice = (tuple(t.dtype.itemsize for t in found) for found in (read, again))
    is_stored = any(prod(tv.shape) == rows * columns for tv in fusion.roots)
    meets = _meets(along)
    down = (t for t in fusion.tensors if is_long(t) and row_shape(t) is None) if meets > 1 else ()
    counted = sum(map(is_counted, down))
    return WalkedRow(columns, itemsizes, sums, twice, is_sent, is_plain, is_stored, meets, counted)


def _meets(along: Sequence[TensorView]) -> int:
    """How many of such reductions need each other, one after another."""
    level = dict[TensorView, int]()
    for tv in along:  # producers first
        needed = (level[t] for t in topological(tv.producers) if t in level)
        level[tv] = 1 + max(needed, default=0)
    return max(level.values(), default=1)


def clusters_of(max_cluster: int, is_sent: bool) -> tuple[list[int], list[int]]:
    """Blocks that may share a row of which what it is reduced to `is_sent`: as many as any GPU with
    clusters runs, and those that only a large one does."""
    if not is_sent:
        return [], []
    return clusters_up_to(max_cluster), [LARGE_CLUSTER] if max_cluster >= LARGE_CLUSTER else []


def blocks_of_row(row: WalkedRow, max_cluster: int) -> int | None:
    """One, else two, else the fewest of up to `max_cluster` of which two are on a multiprocessor,
    else of which one is with the weights of all rows, else one, or as many as any GPU with clusters
    runs, or sixteen. None for a row that is too long for them."""
    if is_walked_alone(row.vectors, row.sums):
        return 1
    allowed, large = clusters_of(max_cluster, row.is_sent)
    if PAIR in allowed and _is_held(row, PAIR):
        return PAIR
    pairs = (count for count in allowed if _is_held_twice(row, count))
    alone = (count for count in (*allowed, *large) if _is_held_with_weights(row, count))
    others = (count for count in (1, *allowed[-1:], *large) if _is_held(row, count))
    return next(chain(pairs, alone, others), None)


def rows_at_once(row: WalkedRow, blocks: int, multiprocessors: int) -> int:
    """Rows of so many blocks each that the machine walks at a time."""
    if blocks == 1:
        most = min(THREADS // (row.vectors + WARP), MAX_BLOCKS, _with_registers(row))
        pairs = threads_of_pairs(ceil_div(row.columns, row.lanes), row.meets)
        if pairs is not None and _with_registers(row, pairs) >= THREADS // pairs:
            most = THREADS // pairs
        return max(most, MIN_BLOCKS) * multiprocessors
    several = 2 if _is_held_twice(row, blocks) else 1
    return max(several * clusters_at_once(blocks, multiprocessors), MIN_BLOCKS)


def threads_of_pairs(vectors: int, meets: int) -> int | None:
    """Threads of a block that has two vectors of the row in each, so that more blocks are on a
    multiprocessor; None where a vector in each is as good. Where threads meet more than once in a
    turn these take longer for that than for their elements, and others work meanwhile."""
    threads = ceil_div(vectors, 2 * WARP) * WARP
    return threads if meets > 1 and MIN_PAIRED <= threads <= MAX_PAIRED else None


def registers_beside(sums: int, elements: int) -> int:
    """Of a thread that adds so many elements of a row to so many sums, without what it loads."""
    return SCRATCH + (SCRATCH_OF_A_SUM + elements) * sums


def _with_registers(row: WalkedRow, pairs: int | None = None) -> int:
    """Blocks for which a multiprocessor has registers, a vector of the row in each thread, or two
    in each of so many."""
    threads = pairs or max(ceil_div(row.vectors, WARP) * WARP, MIN_BLOCK)
    loaded = registers_of((*row.itemsizes, *row.again), row.lanes)
    needed = registers_beside(row.sums, row.lanes) + loaded
    if pairs is not None:
        needed = registers_beside(row.sums - row.counted, 2 * row.lanes) + loaded
    fitting = (n for n in range(MAX_BLOCKS, 0, -1) if registers_among(n * threads) >= needed)
    return next(fitting, 0)


def groups_of_rows(
    row: WalkedRow, terms: int, at_once: int, allowed: Iterable[int], run: int = 1
) -> int | None:
    """How many of the `allowed` groups the `terms` rows are dealt to, of which so many are walked
    `at_once`, `run` rows in a turn. Where they are no multiple of those the last of them leave most
    of the machine idle, for less time if there are many groups. Each writes sums. None where no
    number is allowed."""
    moved = sum(row.itemsizes) + max(row.itemsizes)  # of an element, one is stored

    def cost(groups: int) -> float:
        rest = groups % at_once
        last = min(LAST + rest / at_once, 1) if rest else 0
        walked = (BEGIN + ceil_div(terms, groups * run)) * (groups // at_once + last) * at_once
        return walked * run * moved + groups * row.sums * PARTIAL

    return min((g for g in allowed if g > 1), key=cost, default=None)


def is_busy(blocks: int, multiprocessors: int) -> bool:
    """True where so many blocks that walk rows keep enough of the machine busy."""
    return FEW_BLOCKS * blocks >= multiprocessors


def is_walked_alone(vectors: int, sums: int) -> bool:
    """True for a row of so many vectors that one block has, with so many sums down its columns."""
    return vectors <= MAX_ALONE and vectors * sums <= MAX_SUMMED


def _is_held(row: WalkedRow, blocks: int) -> bool:
    """True where a multiprocessor holds one of so many blocks' part of the row."""
    vectors = ceil_div(row.columns, row.lanes * blocks)
    return vectors <= MAX_VECTORS and vectors * row.sums <= MAX_SUMMED


def _is_held_with_weights(row: WalkedRow, blocks: int) -> bool:
    """True where a multiprocessor holds one of so many blocks' part of the row and of weights."""
    read = row.columns * sum(row.itemsizes)
    return _is_held(row, blocks) and read <= blocks * MAX_BYTES_ALONE


def _is_held_twice(row: WalkedRow, blocks: int) -> bool:
    """True where a multiprocessor holds two blocks of a cluster of so many."""
    read = row.columns * sum(row.itemsizes)
    most = MAX_BYTES if blocks <= PAIR else MAX_BYTES_OF_MORE
    return read <= blocks * most and row.columns * row.sums <= blocks * MAX_SUMS
