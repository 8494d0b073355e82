"""Short rows whose terms a block holds together.

    128 rows of 20 columns, four terms each on average  =>  room for 652 terms of 40 bytes

A row of few terms is the sum of what three loads lead to, each behind the one before, and a thread
that adds it waits for them row after row. Where rows are short, shared memory has room for the
terms of all rows of a block: all of them are on their way together, and are added from there.
"""

from __future__ import annotations

from math import isqrt

from thunder_fuser.analysis.digits import ceil_div

MAX_ROW_BYTES = 256  # of longer rows a block has so few that their loads are many anyway
MAX_HELD_BYTES = 32 * 1024  # of a block, so that six are on a multiprocessor
SPREAD = 6  # standard deviations that rows may have more terms than others, and a few more
SLACK = 8
TURNS = (8, 4, 2, 1)  # rows of a part
BATCH = 8  # terms of a part whose places are read together


def room_for(rows: int, terms: int, every: int) -> int:
    """Terms that `rows` of `every` rows hardly exceed if an index sends so many `terms` anywhere.
    A block whose rows do reads them row by row."""
    mean = ceil_div(rows * terms, max(every, 1))
    return max(rows, mean + SPREAD * isqrt(mean) + SLACK)


def held_rows(parts: int, most: int, each: int, terms: int, every: int) -> tuple[int, int] | None:
    """How many rows each of `parts` has, and for how many terms of `each` bytes there is room; None
    if for too few. A part has up to `most` rows, or as many as have the terms of a batch: those of
    a table in another order have one each, and a block would wait as long for half as many."""
    if most > 1:
        most = max(most, ceil_div(BATCH * every, max(terms, 1)))
    for turns in (turns for turns in TURNS if turns <= most):
        room = room_for(parts * turns, terms, every)
        if room * each <= MAX_HELD_BYTES:
            return turns, room
    return None
