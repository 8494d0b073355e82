"""Which rows several blocks share piece by piece, so that nothing of them stays in one place.

    sum of 8 x 1048576       rows too few to fill the machine: blocks share them
    softmax of 8 x 262144    is stored whole, computed from sums of the row: a cluster of blocks
                             holds it, and reads it once
    gradient of a norm, 64 x 1048576    no block that has a row has its column sums too: one launch
                             for the sums of rows, one for what follows and the sums of columns
    channels of a batch norm, 64 x 3136 elements each    the same; larger ones are shared

What reads the result of a row of the first kind at its elements has to wait for another launch.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TypeAlias

from thunder_fuser.analysis.kept_rows import kept_columns
from thunder_fuser.analysis.reductions import (
    MIN_SHARED,
    column_shape,
    inputs_of_size,
    is_few_and_long,
    is_long,
    is_scan,
    is_scattered,
    row_shape,
    stored_planes,
    stretch_of,
)
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.target import LARGE_CLUSTER, PORTABLE_CLUSTER, REGISTER_BYTES, Target

CLUSTERED_BYTES = 128 * 1024  # of a row that is walked again, in each block of a cluster; as much
# of another tensor's is in registers
MIN_TURNS = 2  # of a machine with large clusters, of which each leaves some of it idle: fewer rows
# stay in the cache from one launch to the next
STRETCH_BYTES = 64  # of a scattered row, below which what a block reads and writes lies in crumbs

Test: TypeAlias = Callable[[TensorView], bool]


def shared_rows(fusion: Fusion, target: Target) -> Test:
    """True for reductions of `fusion` over such rows, and over scattered ones that no cluster
    holds."""
    summed = {column_shape(tv) for tv in fusion.tensors if is_long(tv) and not is_scan(tv)}

    def is_held(plane: tuple[int, int]) -> bool:
        blocks = _most_blocks(plane[0], target)
        return blocks > 1 and plane not in summed and _fits(fusion, plane, blocks * CLUSTERED_BYTES)

    stored = stored_planes(fusion, row_shape)
    whole = set(filter(is_held, stored))
    streamed = {row_shape(tv) for tv in fusion.tensors if is_long(tv) and _is_maximum(tv)}
    too_long = {plane for plane in stored - whole - streamed if _is_too_long(fusion, plane)}

    def is_shared(tv: TensorView) -> bool:
        if is_scattered(tv) and _is_in_crumbs(stretch_of(tv) * _itemsize(fusion, tv)):
            return True
        plane = row_shape(tv)
        is_beyond = plane in too_long and not is_scan(tv)
        could_be = is_beyond or is_scattered(tv) or is_few_and_long(tv, target.multiprocessors)
        return could_be and plane not in whole

    return is_shared


def read_twice(fusion: Fusion, is_shared: Test, max_cluster: int = 1) -> Test:
    """True for reductions of `fusion` of which a second pass would read the terms from memory: of
    rows that blocks share, and of columns that neither a block nor a cluster keeps."""
    is_kept = kept_columns(fusion, max_cluster)
    return lambda tv: is_shared(tv) or (column_shape(tv) is not None and not is_kept(tv))


def _most_blocks(rows: int, target: Target) -> int:
    """Of a cluster that has one of so many rows."""
    are_many = rows * LARGE_CLUSTER >= MIN_TURNS * target.multiprocessors
    return target.max_cluster if are_many else min(target.max_cluster, PORTABLE_CLUSTER)


def _fits(fusion: Fusion, plane: tuple[int, int], limit: int) -> bool:
    """True where the blocks of a cluster hold a row of each input that has the plane's size, up to
    `limit` bytes in shared memory. In registers one tensor has room, unless weights take it."""
    rows = _bytes_of_rows(fusion, plane)
    has_weights = bool(inputs_of_size(fusion, plane[1]))
    return sum(rows) <= limit or (len(rows) == 2 and max(rows) <= limit and not has_weights)


def _is_maximum(tv: TensorView) -> bool:
    """True for what a block may find beside a sum below it, in one pass (`schedule/streams.py`)."""
    return tv.is_of("max")


def _is_too_long(fusion: Fusion, plane: tuple[int, int]) -> bool:
    """True for rows of which even the cache holds too few, one for each multiprocessor."""
    held = PORTABLE_CLUSTER * CLUSTERED_BYTES
    return plane[1] >= MIN_SHARED and sum(_bytes_of_rows(fusion, plane)) > held


def _bytes_of_rows(fusion: Fusion, plane: tuple[int, int]) -> list[int]:
    """Of a row of each input that has the plane's size."""
    _, columns = plane
    return [columns * tv.dtype.itemsize for tv in inputs_of_size(fusion, prod(plane))]


def _is_in_crumbs(stretch_bytes: int) -> bool:
    """True for stretches of a row that are too short, or whose elements take a register each that
    would hold two of them: images of 7 by 7 in 16 bits."""
    return stretch_bytes < STRETCH_BYTES or stretch_bytes % REGISTER_BYTES > 0


def _itemsize(fusion: Fusion, reduction: TensorView) -> int:
    """Bytes of an element of the narrowest input that has the size of what is reduced."""
    read = inputs_of_size(fusion, prod(row_shape(reduction) or ()))
    return min((tv.dtype.itemsize for tv in read), default=reduction.dtype.itemsize)
