"""Rows whose terms a block holds in shared memory, a window of them at a time.

    24 rows of 154 columns, four terms each on average  =>  windows of 24 terms, of which a part
                                                            of the threads asks for eight

A row of few terms is the sum of what three loads lead to, each behind the one before, and a thread
that adds it waits for them row after row. The terms of neighbouring rows lie in one stretch of the
order, so a block walks that: a window of it is on its way while the one before is added from
shared memory, whatever rows they are of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.target import SHARED_UNASKED

MAX_ROW_BYTES = 256  # of longer rows wide vectors are as many loads without
WINDOW_BYTES = 64  # of a thread: with two windows six blocks are on a multiprocessor
BATCH = 8  # vectors of a thread whose places are read together: addresses take registers
WINDOWS = 8  # of a block on average: it waits once for where rows end, and for the first places
LEAST_BLOCKS = 16  # of a multiprocessor, of which five or six run at a time
MAX_ROWS = 512  # whose ends are in shared memory
ROW_BYTES = 24  # of a row: where its terms begin and end, and its number if they are many
FEW_HELD = 64  # terms of a row that a part adds alone in the windows, in some 2 us
MEAN_HELD = 32  # of all rows, so that hardly one has more where an index sends them anywhere


@dataclass(frozen=True)
class Held:
    """Each part asks for a `batch` of terms of a window, and has `turns` rows."""

    turns: int
    batch: int


def held(
    across: int,
    parts: int,
    vectors: Sequence[int],
    sums: int,
    terms: int,
    every: int,
    blocks: int,
) -> Held | None:
    """Of a thread's `vectors` of a term, and sums, of so many bytes; a launch has `blocks` at least
    if rows are enough. None where two windows do not fit beside the sums, or rows have too many
    terms on average."""
    batch = min(BATCH // len(vectors), WINDOW_BYTES // sum(vectors))
    room = SHARED_UNASKED - across * parts * (2 * batch * sum(vectors) + sums)
    rows = min(MAX_ROWS, (room - ROW_BYTES) // ROW_BYTES)  # and how many have many terms
    if batch == 0 or rows < parts or terms > every * MEAN_HELD:
        return None
    turns = min(rows // parts, ceil_div(WINDOWS * batch * every, max(terms, 1)), every)
    while turns > 1 and ceil_div(every, parts * turns) < blocks:
        turns //= 2
    return Held(turns, batch)
