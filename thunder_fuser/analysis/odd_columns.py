"""How columns of images whose rows no vector divides are cut into vectors and dealt to blocks.

    768 channels of 37 x 41, 16 bits      vectors of 4 lanes, 30 of each row in a tile, 13 tiles

A block has a warp for a row of a tile: the vectors that it stores, and one before and behind them,
of which rows that begin inside vectors have a part (`schedule/odd_columns.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.kept_rows import SHARED_ROWS, KeptRows
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.target import CLUSTERS, REGISTER_BYTES, WARP

STORED = WARP - 2  # vectors of each row, of a block
VECTOR_BYTES = 8
LEAST_ROWS = 32  # of columns, below which a thread had few elements for what it does to find them
FILLED = 0.85  # of the vectors of a row's tiles, at least


def tiles_of(width: int, lanes: int) -> int:
    """Tiles of a row, whose vectors may be one more than its elements fill."""
    return ceil_div(ceil_div(width + lanes - 1, lanes), STORED)


def lanes_of(
    itemsizes: Sequence[int], rows: int, width: int, images: int, has_sums: bool
) -> list[int]:
    """Of vectors of tensors whose elements have so many bytes, what is preferred first: of words at
    least, two of them rather than more, of which a block would have a longer piece of each row.
    None where rows are few or fill their tiles badly, where tensors end inside vectors, and of
    words without sums beside, which are loaded as fast one by one."""
    narrow, wide = min(itemsizes), max(itemsizes)
    if rows < LEAST_ROWS or (narrow >= REGISTER_BYTES and not has_sums):
        return []
    widths, elements = (VECTOR_BYTES // narrow, REGISTER_BYTES // narrow), images * rows * width
    possible = (n for n in widths if 1 < n <= MAX_ALIGNMENT // wide and elements % n == 0)
    return [n for n in possible if width >= FILLED * tiles_of(width, n) * STORED * n]


def shares_of(
    column: KeptRows,
    width: int,
    lanes: int,
    max_cluster: int,
    limit: int,
    fits: Callable[[int, int], bool],
) -> tuple[int, int] | None:
    """Threads down, and blocks of a cluster, with room for all rows: as few blocks as can be, and
    threads that keep up to a `limit` of registers, or twice as many. Rows of a thread are a number
    apart that whole vectors have."""
    clusters = [c for c in (1, *CLUSTERS) if c <= max_cluster]
    for held, cluster in product((limit, 2 * limit), clusters):
        part = column.shared_by(cluster)
        down = max(part.threads(held), lanes)
        are_enough = cluster == 1 or part.rows >= SHARED_ROWS * down
        if width * down % lanes == 0 and are_enough and fits(down, cluster):
            return down, cluster
    return None
