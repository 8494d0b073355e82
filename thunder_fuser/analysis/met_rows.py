"""Rows that meet in a block, which combines what neighbours among them came to.

    gradient of a group norm, 8 channels of 28 x 28 a group     8 rows of 32 threads
    20 of 32 x 32                                               20 of 32, one block a multiprocessor
    10 of 64 x 64                                               no block holds them

A channel of an image is a row, whose sums its weight has a gradient of, and the sums of a group are
sums of its rows' sums. A block that holds all rows of a group knows both, and reads them once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.layout import registers_of
from thunder_fuser.analysis.short_rows import in_warps
from thunder_fuser.target import MAX_REGISTERS, MAX_THREADS, REGISTERS, WARP

MAX_MET = 64  # rows, whose values a thread combines one after another
# Elements of a row that one thread holds, the fewest that let a block have all rows, with so many
# blocks on a multiprocessor.
HELD = ((32, 1), (64, 2))
SCRATCH = 32  # registers that a thread needs beside them
WIDTH = 8  # bytes of a vector: of 98 of 16 bytes a warp takes 128 places, of twice as many 224


def vector_of(columns: int, itemsizes: Sequence[int]) -> tuple[int, int]:
    """Elements in a vector of a row of so many columns, and the registers of one of each tensor
    that is read."""
    lanes = gcd(columns, WIDTH // min(itemsizes, default=4) or 1)
    return lanes, registers_of(itemsizes, lanes)


def threads_of_met_row(count: int, vectors: int, lanes: int, registers: int) -> int | None:
    """Threads of each of `count` rows that a block has in registers, of which a vector fills so
    many. None where a block does not hold them."""
    for held, blocks in HELD:
        threads = in_warps(ceil_div(vectors, max(held // lanes, 1)))
        needed = ceil_div(vectors, threads) * registers + SCRATCH
        fits = needed <= MAX_REGISTERS - SCRATCH
        is_room = blocks * needed * threads * count <= REGISTERS
        if threads * count <= MAX_THREADS and fits and is_room:
            return threads
    return None


def groups_of_block(count: int, threads: int, block: int) -> int:
    """How many times `count` rows of so many threads a block of at least `block` has, or of about
    as many where those would leave a warp without some of its threads."""
    own = count * threads
    whole = WARP // gcd(own, WARP)
    several = max(block // own, 1)
    filled = ceil_div(several, whole) * whole
    return filled if filled * own <= MAX_THREADS else several
