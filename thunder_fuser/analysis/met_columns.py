"""Columns of a sample whose sums meet: in the block that keeps all of them, or in a cluster.

    response norm, 96 channels, 256 tokens     a block of 12 vectors of 32 threads a sample
    1536 channels of 14 x 14                   8 blocks, each with 24 vectors of all rows

What the columns of a sample come to together, such as the mean of their sizes, each of its blocks
needs for what it stores: those side by side send each other what theirs come to.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from thunder_fuser.analysis.kept_rows import HELD, THREADS, KeptRows
from thunder_fuser.analysis.reductions import is_down, row_shape, runs_of
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.target import SECTOR, SHARED_UNASKED, clusters_up_to

LIMITS = (2 * HELD, 4 * HELD)  # registers of a thread for its rows, what is preferred first: what a
# thread does for its columns takes as many instructions as ten rows


@dataclass(frozen=True)
class Sample:
    """`count` samples of so many `rows` of `columns` that lie side by side."""

    count: int
    rows: int
    columns: int


@dataclass(frozen=True)
class MetColumns:
    """Threads `across` and `down` a block, and the `blocks` side by side that have a sample."""

    across: int
    down: int
    blocks: int


def sample_of_sum(tv: TensorView) -> Sample | None:
    """Whose rows a reduction down columns combines; None for others, also over several outer
    axes, such as those of channels of images."""
    if not is_down(tv):
        return None
    match [run.size for run in runs_of(tv)]:
        case [rows, columns]:
            return Sample(1, rows, columns)
        case [count, rows, columns]:
            return Sample(count, rows, columns)
    return None


def samples_met(tv: TensorView) -> tuple[int, int] | None:
    """(samples, columns) of a reduction of everything that lies innermost; None for others."""
    return row_shape(tv) if len(runs_of(tv)) <= 2 else None


def met_columns_held(
    column: KeptRows, vectors: int, vector_bytes: int, states: int, max_cluster: int
) -> MetColumns | None:
    """The blocks that keep a sample of so many `vectors` of columns, each with sums of `states`
    bytes: two of a multiprocessor, of which one loads while the other meets or stores, or where
    that saves two planes of five, the only one. Few of them, with two sectors of a row at least."""
    counts = (2, 1) if column.kept * 4 > vector_bytes else (2,)
    clusters = (1, *clusters_up_to(max_cluster))
    for least, limit, blocks in product(counts, LIMITS, clusters):
        across = vectors // blocks
        if vectors % blocks or (blocks > 1 and across * vector_bytes < 2 * SECTOR):
            continue
        down = column.threads(limit)
        while across * down < THREADS and 2 * down <= column.rows:
            down *= 2
        is_room = across * down * states <= SHARED_UNASKED
        if is_room and column.blocks(across * down, down) >= least:
            return MetColumns(across, down, blocks)
    return None
