"""Short rows, of which a block walks several side by side: each has a part of a warp.

    64 columns of bf16      8 vectors, 8 threads a row, 32 rows at a time in a block
    512                     64 vectors, a warp a row, two vectors a thread, 8 rows
    50                      4 threads a row, which take pairs of elements out of shared memory

No thread waits for one of another warp while it walks, and loads of many rows are on their way to
the registers of a multiprocessor. Where stretches of memory are copied in the background, rows pass
through shared memory instead, all of a turn as one stretch, whether they are whole vectors or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import gcd

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.target import WARP

MAX_HELD = 2  # vectors of a row that one thread has
MAX_HELD_BESIDE_ONE = 4  # of a group that has one sum down its columns, and no weights
MAX_VECTORS = MAX_HELD * WARP
THREADS = 256  # of a block, at most
WHOLE_PARTS = (1, 2, 4, 8, 16, 32)  # threads, of a warp
SCANNING = WHOLE_PARTS[:-1]  # of running sums: a whole warp scans vectors of memory in fewer steps
TWO_WARPS = (2 * WARP,)
MANY_GROUPS = 2048  # more than there are blocks that walk on any machine at a time: of images
MIN_SHORT = 40 * 1024  # elements of short rows, per multiprocessor: fewer are in the cache when
# they are read again, and kernels that walk are others for other numbers of rows
MAX_STAGED = 14  # elements of a row that one thread takes out of shared memory
MAX_READ = 36  # of a row that it only reads
MAX_SUMMED = 16  # of one that it only reads, with sums down the columns beside
MAX_READ_OF_ALL = 40  # of the rows of all planes: a divergence takes 102 us by 20 of two, 125 by 10
MAX_RUN = 20  # of one that it scans
STAGED_LANES = (8, 4, 2, 1)  # of them at a time
TAKING = 0.25  # of the work on an element is to take one out of shared memory
TURN = 6.0  # elements, whose work is as much as what a thread does once a turn
MIN_SIDES, MAX_SIDES = 128, 320  # threads of a block that has the same rows of each image
MIN_STRETCH = 2048  # bytes of those: two turns of few blocks must keep memory busy
FEW_STAGED, STAGED_BLOCKS = 10, 3  # of up to so many of a thread, blocks on a multiprocessor
MANY_STAGED_BLOCKS = 2  # of more, which were seen to spill


def is_short(vectors: int) -> bool:
    """True for rows of so many vectors that a part of a warp holds one."""
    return vectors <= MAX_VECTORS


def threads_of_row(vectors: int, held: int = 1) -> int:
    """A power of two, so many that none has more than `held` vectors, up to a warp."""
    return min(in_warps(ceil_div(vectors, held)), WARP)


def in_warps(threads: int) -> int:
    """At least so many threads of a row: whole warps, or a power of two that divides one."""
    if threads > WARP:
        return ceil_div(threads, WARP) * WARP
    return int(1 << (threads - 1).bit_length())


def shifted_vectors(columns: int, lanes: int) -> int:
    """As many aligned ones as a row meets that begins as late in its first as any."""
    return ceil_div(lanes - gcd(columns, lanes) + columns, lanes)


def threads_beside(vectors: int, sums: int) -> int | None:
    """Of a row beside so many sums, a power of two: few of them are without a vector in the last
    turn. None for rows that are too long."""
    most = MAX_HELD_BESIDE_ONE if sums == 1 else MAX_HELD
    if vectors > most * WARP:
        return None
    found = {threads_of_row(vectors, held) for held in range(1, most + 1)}
    return min(found, key=lambda threads: (ceil_div(vectors, threads) * threads, -threads))


@dataclass(frozen=True)
class Share:
    """A thread's of a row that passes through shared memory: `held` elements, so many `lanes` of
    them at a time, of a row that so many `threads` have. They are neighbours where there are
    `runs` of them, else the threads of a row have theirs by turns."""

    threads: int
    lanes: int
    held: int
    runs: bool = field(default=False, kw_only=True)

    @property
    def rows(self) -> int:
        """That a block has at a time."""
        return THREADS // self.threads

    @property
    def busy(self) -> float:
        """Threads for each row, idle ones of the block too."""
        return self.threads

    @property
    def work(self) -> float:
        """For each row: its elements of all threads, and taking them out of shared memory."""
        return self.busy * self.held * (1 + TAKING / self.lanes)

    @property
    def work_alone(self) -> float:
        """The same with what a thread does once a turn, whatever it has of a row."""
        return self.work + self.busy * TURN

    @property
    def blocks(self) -> int:
        """Of a multiprocessor, whose registers have room for what is summed too."""
        return STAGED_BLOCKS if self.held <= FEW_STAGED else MANY_STAGED_BLOCKS


@dataclass(frozen=True)
class ImageShare(Share):
    """The same where a block has so many `sides`, neighbours of one image after the other, in whole
    warps: threads of the last one may be without a row."""

    sides: int

    @property
    def rows(self) -> int:
        return self.sides

    @property
    def busy(self) -> float:
        return ceil_div(self.sides * self.threads, WARP) * WARP / self.sides


def is_much(elements: int, multiprocessors: int) -> bool:
    """True for planes of short rows that are worth a walk."""
    return elements >= MIN_SHORT * multiprocessors


def share_of(columns: int, itemsize: int) -> Share | None:
    """Of a row of elements of so many bytes, with few threads that have none in the last turn: of a
    part of a warp, else of two warps. None for rows that are too long, or are not walked so."""
    for counts in (WHOLE_PARTS, TWO_WARPS):
        found = _shares(columns, itemsize, counts, MAX_STAGED)
        if found:
            return min(found, key=lambda share: share.work)
    return None


def share_beside(columns: int, itemsize: int, is_stored: bool) -> Share | None:
    """The same with sums down the columns beside. Where no row is stored a thread has twice as much
    of each: what all of a row compute alike, as reciprocals, takes half of the instructions."""
    found = [] if is_stored else _shares(columns, itemsize, WHOLE_PARTS, MAX_SUMMED)
    least = min(found, key=lambda share: share.work_alone, default=None)
    return least or share_of(columns, itemsize)


def share_alone(columns: int, itemsize: int, planes: int) -> Share | None:
    """The same where nothing is summed down the columns, and so many `planes` are read, of which
    no row is stored: a thread has more of each, and does what it does once a turn less often."""
    found = _shares(columns, itemsize, WHOLE_PARTS, MAX_READ)
    allowed = (s for s in found if s.held <= MAX_STAGED or s.held * planes <= MAX_READ_OF_ALL)
    return min(allowed, key=lambda share: share.work_alone, default=None)


def share_scanned(columns: int, itemsize: int) -> Share | None:
    """The same of rows with running sums: a run of neighbours, which a thread sums alone."""
    found = _shares(columns, itemsize, SCANNING, MAX_RUN)
    runs = [replace(share, runs=True) for share in found]
    return min(runs, key=lambda share: share.work_alone, default=None)


def _shares(columns: int, itemsize: int, counts: Sequence[int], most: int) -> list[Share]:
    """All that have so many threads and hold no more elements. None of rows that are no whole
    vectors in a block, of vectors of floats, which are walked as fast without, and of elements of
    other sizes than have been measured."""
    if itemsize not in (2, 4) or (itemsize == 4 and columns * itemsize % MAX_ALIGNMENT == 0):
        return []
    found = [
        Share(threads, lanes, ceil_div(columns // lanes, threads) * lanes)
        for lanes in STAGED_LANES
        for threads in counts
        if columns % lanes == 0
    ]
    return [
        share
        for share in found
        if share.held <= most and share.rows * columns * itemsize % MAX_ALIGNMENT == 0
    ]


def share_of_image(rows: int, columns: int, itemsize: int) -> ImageShare | None:
    """Of images of so many `rows`, with the least work for idle threads. None where no part of one
    fills vectors and a block."""
    counts = [n for n in range(1, min(rows, MAX_SIDES) + 1) if rows % n == 0]
    found = [share for n in counts if (share := share_of_sides(n, columns, itemsize))]
    return min(found, key=lambda share: (share.work, -share.sides), default=None)


def share_of_sides(sides: int, columns: int, itemsize: int) -> ImageShare | None:
    """Of so many rows of an image. None where they fill no vectors, are too few, or have too few
    threads or too many."""
    stretch = sides * columns * itemsize
    if itemsize not in (2, 4) or stretch % MAX_ALIGNMENT or stretch < MIN_STRETCH:
        return None
    allowed = [
        ImageShare(threads, lanes, held, sides)
        for lanes in STAGED_LANES
        for threads in WHOLE_PARTS
        if columns % lanes == 0
        and lanes * itemsize <= MAX_ALIGNMENT
        and (held := ceil_div(columns // lanes, threads) * lanes) <= MAX_STAGED
        and MIN_SIDES <= sides * threads <= MAX_SIDES
    ]
    return min(allowed, key=lambda share: share.work, default=None)


def rows_at_once(threads: int, rows: int) -> list[int]:
    """How many of `rows` a block may walk side by side, most first: every turn is full, and with
    `threads` for each or half as many they fill whole warps."""
    counts = range(THREADS // threads, 0, -1)
    return [n for n in counts if rows % n == 0 and n * threads % (2 * WARP) == 0]
