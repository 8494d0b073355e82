"""Rows that meet in a block, which combines what neighbours among them came to.

    gradient of a group norm, 8 channels of 28 x 28 a group     8 rows of 32 threads
    20 of 32 x 32                                               20 of 32, one block a multiprocessor
    10 of 64 x 64                                               10 of 32 in each of four blocks
    4 of 256 x 256                                              no cluster of blocks holds them

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
from thunder_fuser.target import CLUSTERS, MAX_REGISTERS, MAX_THREADS, REGISTERS, WARP

MAX_MET = 64  # rows, whose values a thread combines one after another
# Elements of a row that one thread holds, the fewest that let a block have all rows, with so many
# blocks on a multiprocessor.
HELD = ((32, 1), (64, 2))
HELD_IN_CLUSTER = (32, 64)  # of one in a cluster, whose other blocks it waits for: always with two
KEPT = 32  # elements up to which phases leave what they compute of each for those behind them
SCRATCH = 32  # registers that a thread needs beside them
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


def met_rows_held(
    count: int, vectors: int, lanes: int, registers: int, max_cluster: int
) -> MetRows | None:
    """Where `count` rows are in registers, of which a vector fills so many: in a block, else in as
    few of up to `max_cluster` as hold them. None where these do not."""
    for held, blocks in HELD:
        threads = in_warps(ceil_div(vectors, max(held // lanes, 1)))
        needed = ceil_div(vectors, threads) * registers + SCRATCH
        if _have_room(count * threads, needed, blocks):
            return MetRows(threads)
    for held in HELD_IN_CLUSTER:
        kept = lanes if held <= KEPT else 0
        for cluster in (n for n in CLUSTERS if n <= max_cluster):
            piece = ceil_div(vectors, cluster)
            threads = in_warps(ceil_div(piece, max(held // lanes, 1)))
            needed = ceil_div(piece, threads) * (registers + kept) + SCRATCH
            if threads >= cluster and _have_room(count * threads, needed, blocks=2):
                return MetRows(threads, cluster)  # of which each sends mail to one block
    return None


def _have_room(threads: int, needed: int, blocks: int) -> bool:
    """True for so many blocks on a multiprocessor, whose threads need so many registers."""
    fits = threads <= MAX_THREADS and needed <= MAX_REGISTERS - SCRATCH
    return fits and blocks * needed * threads <= REGISTERS


def groups_of_block(count: int, threads: int, block: int) -> int:
    """How many times `count` rows of so many threads a block of at least `block` has, or of about
    as many where those would leave a warp without some of its threads."""
    own = count * threads
    whole = WARP // gcd(own, WARP)
    several = max(block // own, 1)
    filled = ceil_div(several, whole) * whole
    return filled if filled * own <= MAX_THREADS else several
