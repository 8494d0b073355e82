"""What the rows of columns cost a block that keeps them: threads that share them, and registers of
each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import gcd

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.reductions import column_shape, inputs_of_size, stored_planes
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.target import (
    LINE,
    MAX_THREADS,
    REGISTER_BYTES,
    REGISTERS,
    SECTOR,
    WARP,
    blocks_among,
    clusters_up_to,
)

HELD = 32  # registers of a thread for what it keeps
TALL = 128  # registers of one that has as many rows as these hold: of four bytes each, side by side
TALL_STORED = 88  # counted of one whose rows are stored, for which the compiler takes half more
FEW_DOWN = 4  # such threads of a block that has a warp of each
TALL_SECTORS = 8  # of a row, that a block has where its columns are no part of a warp
TALL_MET = 32 * 1024  # bytes of their sums in shared memory
TALL_SLACK = 1.15  # registers that the compiler takes for each of such a thread that is counted
SCRATCH = 24  # that it needs beside its rows, its sums and their results

THREADS = 128  # of a block, at least, if each of them keeps as many registers as
MIN_HELD = 16  # for what it does for its columns beside
FEW_THREADS = 64  # of a block, at least, if they keep less of columns that are turned

SHARED_ROWS = 4  # of a thread, at least, where blocks share them

IMAGE_THREADS = 512  # of a block that has all places of an image, at most
IMAGE_HELD = 8  # registers of a thread for what it keeps of that, at least
IMAGE_ROWS = (64, 1024)  # bytes of a row of an image that is kept as a whole: from, and below

KEPT_BYTES = 48 * 1024  # of a sector of each row, up to which a block surely keeps them: those of
# two blocks are three eighths of a multiprocessor's registers
SHARED_BYTES = 256 * 1024  # of that which a cluster of eight keeps of columns that no block does
MAX_ROW = 4096  # bytes that are read of a row of the trace, a column of memory, and kept with sums
# over all of them beside
PACKED_BYTES = 8  # of neighbours, without which rows are packed before they are summed


def kept_columns(fusion: Fusion, max_cluster: int = 1) -> Callable[[TensorView], bool]:
    """True for reductions down columns of `fusion` that blocks keep from these on, or clusters of
    up to so many, as something of the plane's size is stored behind them."""
    stored = stored_planes(fusion, column_shape)
    kept = {plane for plane in stored if are_kept(fusion, *plane, max_cluster)}
    kept = {plane for plane in kept if not are_packed(fusion, *plane)}
    return lambda tv: column_shape(tv) in kept


def are_kept(fusion: Fusion, rows: int, columns: int, max_cluster: int = 1) -> bool:
    """True for columns of few rows of what is read of the plane."""
    read = _read(fusion, rows * columns)
    most = KEPT_BYTES if max_cluster == 1 else SHARED_BYTES
    return bool(read) and rows * sum(read) * SECTOR <= most * min(read)


def are_short(fusion: Fusion, rows: int, columns: int) -> bool:
    """True for columns of so few rows of what is read of the plane that a block keeps them, with
    sums over all columns beside, whichever way planes lie."""
    read = _read(fusion, rows * columns)
    return bool(read) and rows * sum(read) <= MAX_ROW


def are_packed(fusion: Fusion, rows: int, columns: int) -> bool:
    """True for columns that no vector fits, of what is read of the plane."""
    read = _read(fusion, rows * columns)
    return bool(read) and gcd(columns * min(read), PACKED_BYTES) < PACKED_BYTES


def _read(fusion: Fusion, elements: int) -> list[int]:
    """Bytes of an element of each tensor of so many that is read."""
    return [tv.dtype.itemsize for tv in inputs_of_size(fusion, elements)]


@dataclass(frozen=True)
class KeptRows:
    """`rows` of a vector of columns, of each of which a thread has `kept` registers and the sums
    `beside`; and registers of what is summed along the columns and of the `results`."""

    rows: int
    kept: int
    beside: int
    results: int

    def threads(self, limit: int = HELD) -> int:
        """The fewest for a column, each with up to `limit` registers of its rows: a power of
        two."""
        down = 1
        while ceil_div(self.rows, down) * self.kept > limit and down < self.rows:
            down *= 2
        return down

    def tall_threads(self, most: int = TALL) -> int:
        """The fewest for a column that have registers for all that is counted, up to so many: a
        power of two."""
        down = 1
        while self.registers(down) > most and down < self.rows:
            down *= 2
        return down

    def tall_across(self, most: int = TALL) -> int:
        """Threads side by side with those: a warp, or half of one where blocks of many warps wait
        for each other, as more blocks are on a multiprocessor then."""
        return WARP if self.tall_threads(most) <= FEW_DOWN else WARP // 2

    def tall_blocks(self) -> int:
        """That a multiprocessor has of such threads, about."""
        down = self.tall_threads()
        return blocks_among(TALL_SLACK * self.registers(down), self.tall_across() * down)

    def may_deepen(self, across: int, down: int, is_turned: bool) -> bool:
        """True where twice as many threads down are to share a column of a block that has few, so
        many side by side. Of columns that are turned, on which they spend the most instructions, a
        warp that has them whole waits for no other one."""
        threads, left = across * down, ceil_div(self.rows, 2 * down) * self.kept
        if 2 * down > self.rows or (is_turned and down == 1 and across >= WARP):
            return False
        return threads < (FEW_THREADS if is_turned and left < MIN_HELD else THREADS)

    def shared_by(self, cluster: int) -> KeptRows:
        """Those of one of so many blocks, an equal part or up to one."""
        return replace(self, rows=ceil_div(self.rows, cluster))

    def registers(self, down: int) -> int:
        """Of a thread that has every so many-th row."""
        return ceil_div(self.rows, down) * (self.kept + self.beside) + SCRATCH + self.results

    def blocks(self, threads: int, down: int) -> int:
        """Blocks of so many threads whose registers a multiprocessor has."""
        return REGISTERS // (self.registers(down) * threads) if threads <= MAX_THREADS else 0

    def fit_twice(self, across: int, down: int, cluster: int) -> bool:
        """True where a multiprocessor has two of the blocks that share them."""
        return self.shared_by(cluster).blocks(across * down, down) > 1

    def fits_alone(self, across: int) -> bool:
        """True where a block has so many vectors of all rows, with up to twice as many registers of
        a thread as it had better keep."""
        downs = (self.threads(limit) for limit in (HELD, 2 * HELD))
        return any(self.blocks(across * down, down) > 0 for down in downs)


def tall_lanes(lanes: int, itemsizes: Sequence[int]) -> int:
    """Lanes of vectors of up to so many of what threads read and only sum, with sums over columns
    beside: four bytes, as a thread that has more rows of fewer columns has fewer sums to bring
    together with others, and less to do once a column. What is stored wants whole vectors."""
    return gcd(lanes, max(REGISTER_BYTES // min(itemsizes), 1))


def tall_run(own: int, most: int, vector_bytes: int, met_bytes: int) -> int:
    """Vectors of a tile of such columns, of a sample of so many: up to so many that are part of a
    warp, whose shuffles bring sums over them together; else whole sectors of a row, whose sums meet
    in shared memory, of so many bytes each, if they are few. 0 where no tile divides the sample."""
    sector = max(SECTOR // vector_bytes, 1)
    part = gcd(own, most)
    if part >= 2 * sector:
        return part
    tiles = range(TALL_SECTORS * sector, sector, -sector)
    return next((n for n in tiles if own % n == 0 and n * met_bytes <= TALL_MET), 0)


def parts_of_columns(across: int, down: int, values: int) -> int | None:
    """Partial results of each column in the shared memory of a block of so many threads: one of
    each warp, whose threads combine theirs in registers. None where those across are no part of a
    warp, blocks are no whole warps, or a state has several `values`, which are not shuffled."""
    is_whole = across * down % WARP == 0
    is_met = across < WARP and is_part_of_warp(across) and is_whole and values == 1
    return across * down // WARP if is_met else None


def is_part_of_warp(across: int) -> bool:
    """True for so many neighbours that shuffles reach all of them from each."""
    return WARP % across == 0


def lies_in_warps(across: int) -> bool:
    """True for so many neighbours that they are part of a warp, or whole ones."""
    return is_part_of_warp(across) or across % WARP == 0


def are_kept_whole(vectors: int, row_bytes: int) -> bool:
    """True for images with rows of so many vectors and bytes that a block has all places of: of
    rows that are whole lines it may have a line each, and of longer ones a line more is little."""
    least, end = IMAGE_ROWS
    return least <= row_bytes < end and row_bytes % LINE > 0 and 2 * vectors <= IMAGE_THREADS


def sharing(
    column: KeptRows,
    wide: Sequence[int],
    clusters: Sequence[int],
    fit: Callable[[int, int, int], bool],
    limit: int = HELD,
    least: int = 1,
) -> tuple[int, int, int] | None:
    """Threads across and down, `least` at least, and how many blocks of one of the `clusters`
    share columns: as few as `fit`, of the first of the numbers across that are `wide` enough, of
    threads that keep up to `limit` registers or twice as many. None where no cluster has room, or
    threads would have too few rows for what it costs several blocks to meet."""
    for most, across, cluster in product((limit, 2 * limit), wide, clusters):
        part = column.shared_by(cluster)
        down = max(part.threads(most), least)
        are_enough = cluster == 1 or part.rows >= SHARED_ROWS * down
        if are_enough and fit(across, down, cluster):
            return across, down, cluster
    return None


def blocks_of_image(column: KeptRows, vectors: int, max_cluster: int) -> Iterator[tuple[int, int]]:
    """Threads down, of a block that has so many vectors across, and blocks that share the rows of
    an image, if each thread keeps enough: the fewest blocks first, and then the most threads, or
    some less with more registers each."""
    most = IMAGE_THREADS // vectors
    for cluster in (1, *clusters_up_to(max_cluster)):
        if column.rows % cluster == 0:
            part = column.shared_by(cluster)
            least = 1 if cluster == 1 else SHARED_ROWS
            for down in range(most, max(most - 2, 1), -1):
                rows = part.rows // down
                if rows >= least and rows * part.kept >= IMAGE_HELD:
                    yield down, cluster
