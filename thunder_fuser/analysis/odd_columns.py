"""How columns of images whose rows no vector divides are cut into vectors and dealt to blocks.

    768 channels of 37 x 41, 16 bits      vectors of 4 lanes, 30 of each row in a tile, 13 tiles

A block has a warp for a row of a tile: the vectors that it stores, and one before and behind them,
of which rows that begin inside vectors have a part (`schedule/odd_columns.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.kept_rows import KeptRows, sharing
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.target import REGISTER_BYTES, WARP, clusters_up_to

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


def odd_sharing(
    column: KeptRows, lanes: int, max_cluster: int, fit: Callable[[int, int, int], bool], limit: int
) -> tuple[int, int, int] | None:
    """As `sharing`, of a warp across: as few blocks as can be, and a number of threads down after
    which rows of every width begin in the lane that they began in."""
    clusters = (1, *clusters_up_to(max_cluster))
    return sharing(column, [WARP], clusters, fit, limit, least=lanes)
