"""Short rows, of which a block walks several side by side: each has a part of a warp.

    64 columns of bf16      8 vectors, 8 threads a row, 32 rows at a time in a block
    512                     64 vectors, a warp a row, two vectors a thread, 8 rows

No thread waits for one of another warp while it walks, and loads of many rows are on their way to
the registers of a multiprocessor.
"""

from __future__ import annotations

from math import gcd

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.target import WARP

MAX_HELD = 2  # vectors of a row that one thread has
MAX_HELD_BESIDE_ONE = 4  # of a group that has one sum down its columns, and no weights
MAX_VECTORS = MAX_HELD * WARP
THREADS = 256  # of a block, at most


def is_short(vectors: int) -> bool:
    """True for rows of so many vectors that a part of a warp holds one."""
    return vectors <= MAX_VECTORS


def threads_of_row(vectors: int, held: int = 1) -> int:
    """A power of two, so many that none has more than `held` vectors, up to a warp."""
    wanted = -(-vectors // held)
    return min(int(1 << (wanted - 1).bit_length()), WARP)


def shifted_vectors(columns: int, lanes: int) -> int:
    """As many as a row meets that begins as late in its first one as any."""
    return ceil_div(lanes - gcd(columns, lanes) + columns, lanes)


def threads_beside(vectors: int, sums: int) -> int | None:
    """Of a row beside so many sums, a power of two: few of them are without a vector in the last
    turn. None for rows that are too long."""
    most = MAX_HELD_BESIDE_ONE if sums == 1 else MAX_HELD
    if vectors > most * WARP:
        return None
    found = {threads_of_row(vectors, held) for held in range(1, most + 1)}
    return min(found, key=lambda threads: (ceil_div(vectors, threads) * threads, -threads))


def rows_at_once(threads: int, rows: int) -> list[int]:
    """How many of `rows` a block may walk side by side, most first: every turn is full, and with
    `threads` for each or half as many they fill whole warps."""
    counts = range(THREADS // threads, 0, -1)
    return [n for n in counts if rows % n == 0 and n * threads % (2 * WARP) == 0]
