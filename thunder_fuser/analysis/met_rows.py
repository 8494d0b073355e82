"""Rows that meet in a block, which combines what neighbours among them came to.

    gradient of a group norm, 8 channels of 28 x 28 a group     8 rows of 32 threads
    20 of 32 x 32                                               20 of 16 in each of two blocks
    10 of 64 x 64                                               10 of 32 in each of four
    9 of 128 x 128                                              no cluster of four holds them

A channel of an image is a row, whose sums its weight has a gradient of, and the sums of a group are
sums of its rows' sums. A block that holds all rows of a group knows both, and reads them once. So
does each block of a cluster that has a part of all of them, once it has mail of the other parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.layout import registers_of
from thunder_fuser.analysis.short_rows import in_warps
from thunder_fuser.target import MAX_REGISTERS, MAX_THREADS, REGISTERS, WARP

MAX_MET = 96  # rows of at most two blocks
MAX_MET_APART = 64  # of four blocks: 80 of 1024 took 177 us for 143
SCRATCH = 32  # registers that a thread needs beside its row
SCRATCH_BESIDE_KEPT = 24  # and beside what it keeps of each element too
SHARERS = (1, 2, 4)  # blocks of a cluster: eight took longer than to read the planes twice
BUSY = 15  # threads of a block for each that its last warp may lack
WIDTH = 8  # bytes of a vector: of 98 of 16 bytes a warp takes 128 places, of twice as many 224


def vector_of(columns: int, itemsizes: Sequence[int]) -> tuple[int, int]:
    """Elements in a vector of a row of so many columns, and the registers of one of each tensor
    that is read."""
    lanes = gcd(columns, WIDTH // min(itemsizes, default=4) or 1)
    return lanes, registers_of(itemsizes, lanes)


@dataclass(frozen=True)
class MetRows:
    """Where rows are that meet: all of them in each of `cluster` blocks, with so many `threads` of
    a block for each."""

    threads: int
    cluster: int = 1


@dataclass(frozen=True)
class _Way:
    """With up to `held` elements of a row in each thread and so many `blocks` on a multiprocessor,
    in one of `clusters`. The phases leave what they compute of each element for those behind them
    if it `keeps` that."""

    held: int
    blocks: int
    clusters: Sequence[int]
    keeps: bool = False


# What is preferred first: while one of two blocks meets or stores, the other one loads.
WAYS = (
    _Way(held=32, blocks=2, clusters=SHARERS, keeps=True),
    _Way(held=32, blocks=1, clusters=(1,)),
    _Way(held=64, blocks=2, clusters=SHARERS),
)


def met_rows_held(
    count: int, vectors: int, lanes: int, registers: int, max_cluster: int
) -> MetRows | None:
    """Where `count` rows are in registers, of which a vector fills so many: in a block, or in as
    few of up to `max_cluster` as hold them. None where these do not."""
    for way in WAYS:
        of_vector, beside = registers, SCRATCH
        if way.keeps:
            of_vector, beside = registers + lanes, SCRATCH_BESIDE_KEPT
        for cluster in (n for n in way.clusters if n <= max_cluster):
            piece = ceil_div(vectors, cluster)
            threads = in_warps(ceil_div(piece, max(way.held // lanes, 1)))
            needed = ceil_div(piece, threads) * of_vector + beside
            fits = needed <= MAX_REGISTERS - SCRATCH and threads * count <= MAX_THREADS
            is_room = way.blocks * needed * threads * count <= REGISTERS
            if fits and is_room and threads >= cluster:  # each sends mail to one block
                return MetRows(threads, cluster)
    return None


def groups_of_block(count: int, threads: int, block: int) -> int:
    """How many times `count` rows of so many threads a block of at least `block` has, or up to
    twice as many that fill warps: 20000x48x14x14 f32, back, took 558 us with whole ones, and 611
    with 120 threads. Else about as many where those would leave a part of a warp without threads.
    """
    own = count * threads
    several = max(block // own, 1)
    most = max(several, MAX_THREADS // own)
    whole = (n for n in range(several, min(2 * several, most) + 1) if n * own % WARP == 0)
    found = (n for n in range(several, most + 1) if -n * own % WARP * BUSY <= n * own)
    return next(whole, next(found, several))
