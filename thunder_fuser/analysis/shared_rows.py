"""Which rows several blocks share piece by piece, so that nothing of them stays in one place.

    sum of 8 x 1048576       rows too few to fill the machine: blocks share them
    softmax of 8 x 262144    is stored whole, computed from sums of the row: a cluster of blocks
                             holds it, and reads it once
    channels of a batch norm, 64 x 3136 elements each    the same; larger ones are shared

What reads the result of a row of the first kind at its elements has to wait for another launch.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TypeAlias

from thunder_fuser.analysis.reductions import (
    is_few_and_long,
    is_long,
    is_scattered,
    row_shape,
    stretch_of,
)
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.target import PORTABLE_CLUSTER, REGISTER_BYTES

CLUSTERED_BYTES = 128 * 1024  # of a row that is walked again, in each block of a cluster
STRETCH_BYTES = 64  # of a scattered row, below which what a block reads and writes lies in crumbs

Test: TypeAlias = Callable[[TensorView], bool]


def shared_rows(fusion: Fusion, multiprocessors: int, max_cluster: int = 1) -> Test:
    """True for reductions of `fusion` over such rows, and over scattered ones that are not held. Up
    to `max_cluster` blocks can hold one."""
    blocks = min(max_cluster, PORTABLE_CLUSTER)
    limit = blocks * CLUSTERED_BYTES if blocks > 1 else 0
    whole = {plane for plane in _stored_planes(fusion) if _row_bytes(fusion, plane) <= limit}

    def is_shared(tv: TensorView) -> bool:
        if is_scattered(tv) and _is_in_crumbs(stretch_of(tv) * _itemsize(fusion, tv)):
            return True
        could_be = is_scattered(tv) or is_few_and_long(tv, multiprocessors)
        return could_be and row_shape(tv) not in whole

    return is_shared


def _stored_planes(fusion: Fusion) -> set[tuple[int, int]]:
    """The planes, of reductions along rows, of which something that follows from them is stored."""
    below: dict[TensorView, frozenset[tuple[int, int]]] = {}
    for tv in fusion.tensors:
        found = frozenset[tuple[int, int]]()
        if tv.definition is not None:
            found = found.union(*(below[source] for source in tv.definition.tensors))
        along = row_shape(tv) if is_long(tv) else None
        below[tv] = found if along is None else found | {along}
    return {plane for tv in fusion.roots for plane in below[tv] if prod(tv.shape) == prod(plane)}


def _row_bytes(fusion: Fusion, plane: tuple[int, int]) -> int:
    """Of a row of each input that has the plane's size."""
    _, columns = plane
    return sum(columns * tv.dtype.itemsize for tv in _of_size(fusion, prod(plane)))


def _is_in_crumbs(stretch_bytes: int) -> bool:
    """True for stretches of a row that are too short, or whose elements take a register each that
    would hold two of them: images of 7 by 7 in 16 bits."""
    return stretch_bytes < STRETCH_BYTES or stretch_bytes % REGISTER_BYTES > 0


def _itemsize(fusion: Fusion, reduction: TensorView) -> int:
    """Bytes of an element of the narrowest input that has the size of what is reduced."""
    read = _of_size(fusion, prod(row_shape(reduction) or ()))
    return min((tv.dtype.itemsize for tv in read), default=reduction.dtype.itemsize)


def _of_size(fusion: Fusion, elements: int) -> list[TensorView]:
    read = [tv for tv in fusion.inputs if isinstance(tv, TensorView)]
    return [tv for tv in read if prod(tv.shape) == elements]
