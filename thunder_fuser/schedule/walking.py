"""Where rows are while blocks walk them, with sums down their columns beside them.

    gradient of a norm, 4096      slots for several rows in shared memory, and one in registers, of
                                  which the sums leave so many
                        50257     the same in each block of a cluster, with its part of the columns

The threads hold the sums in registers from the first row to the last, so the row on which they work
and those that come are in shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.walked_rows import (
    PAIR,
    clusters_of,
    is_walked_alone,
    registers_beside,
    threads_of_pairs,
)
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.parameters import RowParameters
from thunder_fuser.schedule.residency import (
    MIN_BLOCK,
    PREFERRED,
    RESERVED_BYTES,
    Residency,
    Row,
)
from thunder_fuser.target import WARP, Target, registers_among

MAX_THREADS_WITH_SUMS = 512
HELD_BESIDE_SUMS = 2  # vectors of a thread, of more of which such a kernel has been seen to spill
SPILL_FREE = 128  # estimated registers beyond which such a kernel has been seen to spill
MAX_HELD_IN_CLUSTER = 40  # elements of a thread, of more of which it spilled whatever was free
FREE_LANES, FREE_IN_CLUSTER, FREE_OF_A_SUM = 5, 15, 4  # registers beside the sums of more vectors
# than that in a block of a cluster, below which such a kernel has been seen to spill
SPARE_IN_CLUSTER = 8  # registers beside weights, without which it spilled
IN_FLIGHT = 96 * 1024  # bytes of rows on their way that keep a multiprocessor's memory busy
IDLE = (8, 4)  # of so many threads one may be idle in the last turn along a row, if it must be
IDLE_IN_CLUSTER = (8, 4, 2)
COUNT = 4  # bytes, of each column
MAX_COUNTS = 40 * 1024  # bytes of a block's static shared memory, which is 48 KB
MIN_PART = 512  # vectors of a row that is walked, in each block of a cluster
MIN_SLOTS, MAX_SLOTS = 2, 8  # rows in a block's shared memory: one is worked on, others come
L1_LEAST = 29 * 1024  # bytes of a multiprocessor's L1 cache, to which shared memory leaves the rest
MAX_GATHERED = 4 * 1024  # bytes of a block's shared memory, before it walks
PLACES = 2 * MAX_SLOTS  # for what rows bring, at most
RESERVED_ALONE = 2 * 1024  # bytes that a block of a cluster needs beside those and what it sends,
# with no other one on its multiprocessor


def beside_sums(
    row: Row, sums: int, turns: int, target: Target, parameters: RowParameters = PREFERRED
) -> Residency | None:
    """In one block if that has room, else in a cluster, preferably one of which two blocks are on a
    multiprocessor: while one waits for the rest of its cluster, the other computes. A thread holds
    the accumulators of `sums` sums in registers, and its part of this row and the next ones of
    `turns` in shared memory. None for rows that are too long."""

    def shared_by(blocks: int, walks: int) -> Residency | None:
        part = replace(row, vectors=ceil_div(row.vectors, blocks))
        return _of_threads(_Walk(part, sums, turns, walks, blocks, target, parameters))

    def worth(found: Residency) -> tuple[bool, bool]:
        """Blocks for half of the machine, and the weights of all rows in them: each turn would read
        them again in both of its walks, and odd rows put each vector of them together of two."""
        return _fill_half(row, turns, found.cluster, target), found.weights or found.stowed

    def preferred() -> Iterator[Residency]:
        for sizes in _clusters(row, sums, turns, target, parameters.cluster):
            for walks in range(parameters.walks, 0, -1):
                shared = (shared_by(size, walks) for size in sizes)
                yield from (residency for residency in shared if residency is not None)

    found = preferred()
    first = next(found, None)
    if first is None or first.cluster == 1:
        return first
    return max((first, *found), key=worth)


def _clusters(
    row: Row, sums: int, turns: int, target: Target, wanted: int | None
) -> Sequence[Sequence[int]]:
    """How many blocks may walk a row, what is preferred first: the fewer have to wait for each
    other the better, while they fill the machine."""
    allowed, large = clusters_of(target.max_cluster, row.is_sent)
    if wanted in allowed and row.vectors >= wanted * MIN_PART:
        return [[wanted]]
    if wanted == 1:
        return [[1]]
    if is_walked_alone(row.vectors, sums):
        return [[1], allowed]
    are_many = _fill_half(row, turns, PAIR, target)
    return [[PAIR] if PAIR in allowed and are_many else [], allowed, [1], large]


def _fill_half(row: Row, turns: int, cluster: int, target: Target) -> bool:
    """True for clusters of so many blocks that half of the multiprocessors have one."""
    return 2 * (row.count // turns) * cluster >= target.multiprocessors


@dataclass(frozen=True)
class _Walk:
    """A block of a `cluster` that has its part of each `row` of a group of so many `turns`, with so
    many `sums`, of which up to `walks` are on a multiprocessor."""

    row: Row
    sums: int
    turns: int
    walks: int
    cluster: int
    target: Target
    parameters: RowParameters

    @property
    def launched(self) -> int:
        """Blocks."""
        return self.row.count // self.turns * self.cluster

    @property
    def pairs(self) -> int | None:
        """Threads with two vectors each, where rows were dealt out to so many more blocks."""
        found = threads_of_pairs(self.row.vectors, self.row.meets)
        are_dealt = self.cluster == 1 and self.launched > self.walks * self.target.multiprocessors
        return found if are_dealt else None


def _of_threads(walk: _Walk) -> Residency | None:
    """A block with its part of a row: as many threads as leave room for so many of them on a
    multiprocessor, or for more of short rows, whose threads mostly wait for each other. A warp that
    only asks whether it has work made layer norm's 3072 columns 25 % slower, and rmsnorm's 2560
    6 % faster: so one may be `spare`."""
    if walk.pairs is not None and (found := _walking(walk, walk.pairs)) is not None:
        return found
    idle = IDLE if walk.cluster == 1 else IDLE_IN_CLUSTER
    working = ceil_div(walk.row.vectors, WARP) + walk.parameters.spare
    most = min(max(working * WARP, MIN_BLOCK), MAX_THREADS_WITH_SUMS)
    for one_of in idle:
        for threads in range(most, MIN_BLOCK - 1, -WARP):
            left = -walk.row.vectors % threads
            is_last = one_of == idle[-1] and threads == MIN_BLOCK
            if left <= threads // one_of or is_last:
                found = _walking(walk, threads)
                if found is not None:
                    return found
    return None


def _walking(walk: _Walk, threads: int) -> Residency | None:
    """A block of so many threads that walks its part of rows; None where it has no room."""
    row, sums, turns, cluster = walk.row, walk.sums, walk.turns, walk.cluster
    target, parameters = walk.target, walk.parameters
    gathered = turns * sum(row.waited.values()) + PLACES * sum(row.late.values())
    if gathered > MAX_GATHERED:
        row, gathered = replace(row, waited={}, late={}), 0
    held = ceil_div(row.vectors, threads)
    launched, are_few = walk.launched, held > 1 and threads != walk.pairs
    room = walk.walks if are_few else walk.walks * MAX_THREADS_WITH_SUMS // threads
    blocks = min(room, max(ceil_div(launched, target.multiprocessors), walk.walks))
    reserved = RESERVED_BYTES if cluster == 1 or blocks > 1 else _alone(row, threads, cluster)
    counts = COUNT * row.counted * row.lanes * held * threads
    if counts > MAX_COUNTS:
        return None
    limit = target.shared_bytes - reserved - (gathered + counts) * blocks
    most = min(registers_among(threads * blocks), SPILL_FREE)
    of_block = 4 * row.loaded * held * threads  # bytes that it moves in a turn
    is_much = cluster > 1 and held * row.lanes > MAX_HELD_IN_CLUSTER
    needed = _registers(row, held, sums, cluster)
    if is_much or needed > most or MIN_SLOTS * of_block * blocks > limit:
        return None
    blocks, ahead = _spread(launched, room, target)
    moved = max(of_block * blocks, 1)  # nothing is read of some rows
    slots = min(_slots(moved, ahead, parameters), turns, limit // moved)
    summing = registers_beside(sums, held * row.lanes)
    free = most - summing - row.loaded if parameters.keeps else 0
    kept, weights = _beside(row, held, free, 0 if cluster == 1 else SPARE_IN_CLUSTER)
    left = limit - slots * moved - 4 * row.weights * held * threads * blocks
    are_elsewhere = row.weights > 0 and not weights
    stowed = parameters.keeps and are_elsewhere and left >= 0
    is_full = blocks > 1 and cluster == 1 and held > HELD_BESIDE_SUMS
    if is_full and are_elsewhere and not stowed:
        return None  # weights that every turn loads again were seen to spill
    cached = L1_LEAST + (left if stowed else limit - slots * moved)
    if blocks > 1 and cluster > PAIR and (slots - 1) * moved > cached:
        return None  # what is on its way passes through the L1 cache: with less room they were slow
    return Residency(
        threads,
        kept,
        frozenset(row.loads),
        slots,
        blocks,
        cluster,
        weights,
        stowed,
        gathered=frozenset(row.waited),
        brought=frozenset(row.late if parameters.brings else ()),
    )


def _registers(row: Row, held: int, sums: int, cluster: int) -> int:
    """That a thread needs which has `held` vectors of a row."""
    if cluster > 1 and held > HELD_BESIDE_SUMS:
        return (held * sums + FREE_LANES) * row.lanes + FREE_IN_CLUSTER + FREE_OF_A_SUM * sums
    again = sum(row.loads[tv] for tv in row.again)
    return registers_beside(sums, held * row.lanes) + row.loaded + again


def _slots(moved: int, ahead: int, parameters: RowParameters) -> int:
    """As many rows as keep memory busy, of which so many bytes are `moved` in a turn: those that a
    full machine would have on their way, `ahead` times."""
    flying = 1 + ceil_div(IN_FLIGHT, moved)
    return min(flying, 1 + ahead * (parameters.slots - 1), MAX_SLOTS)


def _alone(row: Row, threads: int, cluster: int) -> int:
    """Bytes beside its rows that a block needs which has a multiprocessor to itself: for parts of
    its warps and of the other blocks, two of each by turns, and its mailboxes."""
    return RESERVED_ALONE + 2 * (ceil_div(threads, WARP) + cluster) * row.states


def _spread(blocks: int, most: int, target: Target) -> tuple[int, int]:
    """How many of `blocks` a multiprocessor has that holds up to `most`; and how many times as many
    rows each has on their way as those of a full machine, so that as many bytes are."""
    several = min(ceil_div(blocks, target.multiprocessors), most)
    return several, max(most * target.multiprocessors // blocks, 1)


def _beside(row: Row, held: int, free: int, spare: int) -> tuple[frozenset[TensorView], bool]:
    """What `free` registers take: what is read again of the row, and the weights of all rows if
    they leave so many to `spare`."""
    again = held * sum(row.loads[tv] for tv in row.again)
    if again > free or held > HELD_BESIDE_SUMS:
        return frozenset(), False
    return row.again, bool(row.weights) and again + held * row.weights + spare <= free
