"""How a long index is put in order: by its digits in binary, the lowest first, a stage each.

    18 bits of 200,000 groups  =>  a stage by bits 0 to 8, and one by bits 9 to 17

A stage counts the digits of each chunk of places, and then moves the places: each block knows from
the counts of all chunks where those of its own go, so it reads its chunk and the counts, however
many places and groups there are.
"""

from __future__ import annotations

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.ops.groups import CHUNKS
from thunder_fuser.target import MAX_THREADS, WARP

LONG = 3 << 13  # places for each stage, from which on these are faster than blocks that read the
# whole index each: 67,042 took those 21 us and two stages 10
LONGEST = 1 << 23  # places up to which the counts of all chunks are few beside them
MANY = 1 << 32  # places times groups from which on blocks that read the whole index are too many
MIN_BITS, MAX_BITS = 5, 10  # of a digit
MAX_STAGES = 3
COUNTERS = 16384  # of a block, 16 bits each: one per digit and warp
HELD = 8 * MAX_THREADS  # places that a block puts in order in the memory of its counters
ROUNDS = 4  # of so many places that a block may have: all of them are counted in 16 bits


def stages_of(groups: int) -> tuple[tuple[int, int], ...]:
    """The lowest bit and the number of bits of each stage's digit. What each block of a stage reads
    of all counts doubles with a bit, so the last one has no more than are left."""
    bits = max(MIN_BITS, (groups - 1).bit_length())
    each = ceil_div(bits, ceil_div(bits, MAX_BITS))
    return tuple((low, min(each, bits - low)) for low in range(0, bits, each))


def threads_of(bits: int) -> int:
    """Threads of a block, each warp with a counter per digit."""
    return min(MAX_THREADS, (COUNTERS >> bits) * WARP)


def chunk_of(places: int, bits: int) -> int:
    """Places of a block: as many of each thread in each round."""
    each = ceil_div(places, CHUNKS)
    unit = threads_of(bits) * min(ROUNDS, max(1, ceil_div(each, HELD)))
    return min(ROUNDS * HELD, unit * max(1, ceil_div(each, unit)))


def round_of(chunk: int) -> int:
    """Places that a block moves at a time, in as few rounds as can be."""
    return ceil_div(chunk, ceil_div(chunk, HELD))


def is_chunk(chunk: int, bits: int) -> bool:
    """True for a number of places that a block may have."""
    if not 0 < chunk <= ROUNDS * HELD:
        return False
    return chunk % round_of(chunk) == 0 and round_of(chunk) % threads_of(bits) == 0


def is_worth_stages(places: int, groups: int) -> bool:
    """True for an index that no block should read as a whole, and that few stages put in order."""
    is_long = places >= LONG * len(stages_of(groups)) or places * groups > MANY
    return is_long and 1 < places <= LONGEST and 1 < groups <= 1 << MAX_BITS * MAX_STAGES
