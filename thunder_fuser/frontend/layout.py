"""How a tensor lies in memory, as definitions describe it: contiguity and stride order.

`stride_order[dim]` ranks a dim by stride, the largest outermost. `contiguity` is in allocation
order, so logical dim `i` has the entry `rank - 1 - stride_order[i]`: True where the stride is what
density demands, None for a broadcast dim (size 1, or expanded with stride 0).

    sizes (4, 6), strides (1, 4)     =>    contiguity [True, True], stride order [0, 1]
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Descriptor(NamedTuple):
    """Contiguity in allocation order and the stride order of the logical dims."""

    contiguity: tuple[bool | None, ...]
    stride_order: tuple[int, ...]


def compute_tensor_descriptor(sizes: Sequence[int], strides: Sequence[int]) -> Descriptor:
    """The descriptor of a tensor with these sizes and strides (in elements).

    Dims of stride 0 keep their logical position; the others are ranked by stride, ties in logical
    order. Raises ValueError for different lengths and for negative strides.
    """
    rank = len(sizes)
    if len(strides) != rank:
        raise ValueError(f"{rank} sizes {list(sizes)} but {len(strides)} strides {list(strides)}")
    for dim, stride in enumerate(strides):
        if stride < 0:
            raise ValueError(f"dim {dim} has the negative stride {stride}")
    allocation = sorted((d for d in range(rank) if strides[d]), key=lambda d: -strides[d])
    for dim in range(rank):
        if not strides[dim]:
            allocation.insert(dim, dim)
    order = [0] * rank
    contiguity: list[bool | None] = [None] * rank
    dense = 1
    for position in reversed(range(rank)):
        dim = allocation[position]
        order[dim] = rank - 1 - position
        if sizes[dim] != 1 and strides[dim]:
            contiguity[position] = strides[dim] == dense
            dense = strides[dim] * sizes[dim]
    return Descriptor(tuple(contiguity), tuple(order))


def natural_order(rank: int) -> tuple[int, ...]:
    """Row-major: [rank - 1, ..., 0]."""
    return tuple(range(rank - 1, -1, -1))


def canonical_stride_order(stride_order: Sequence[int], rank: int) -> tuple[int, ...]:
    """Negative entries wrapped, the natural order where none is given.

    Raises TypeError for what is no int, ValueError for a wrong length, an entry out of range, or a
    duplicate.
    """
    if not len(stride_order):
        return natural_order(rank)
    if len(stride_order) != rank:
        raise ValueError(
            f"stride_order {list(stride_order)} has {len(stride_order)} entries, rank is {rank}"
        )
    entries = integers(stride_order, "stride_order")
    order = tuple(wrap(entry, rank, f"stride_order[{k}]") for k, entry in enumerate(entries))
    for entry in order:
        if order.count(entry) > 1:
            raise ValueError(f"stride_order {list(stride_order)} has {entry} twice")
    return order


def canonical_contiguity(
    contiguity: object, shape: Sequence[int], order: Sequence[int]
) -> tuple[bool | None, ...]:
    """One entry per allocation position; a single bool stands for every non-broadcast dim.

    Raises ValueError for a wrong length and for an entry that contradicts its dim.
    """
    rank = len(shape)
    dims = sorted(range(rank), key=lambda d: -order[d])
    if isinstance(contiguity, bool):
        return tuple(None if shape[d] == 1 else contiguity for d in dims)
    if not isinstance(contiguity, Sequence):
        raise TypeError(f"contiguity is a bool or a list, not {contiguity!r}")
    if len(contiguity) != rank:
        raise ValueError(
            f"contiguity {list(contiguity)} has {len(contiguity)} entries, rank is {rank}"
        )
    for position, (dim, entry) in enumerate(zip(dims, contiguity, strict=True)):
        if entry is not None and not isinstance(entry, bool):
            raise TypeError(f"contiguity[{position}] is {entry!r}; legal: True, False, None")
        if entry is not None and shape[dim] == 1:
            raise ValueError(
                f"contiguity[{position}] is {entry} for dim {dim} of size 1, a broadcast; "
                "legal: None"
            )
    return tuple(contiguity)


def integers(values: Iterable[object], what: str) -> list[int]:
    """Plain ints. Raises TypeError for an entry that is none, as bools are."""
    found = []
    for position, value in enumerate(values):
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(f"{what}[{position}] is {value!r}; legal: an int")
        found.append(operator.index(value))
    return found


def wrap(dim: int, rank: int, what: str) -> int:
    """`dim` in [0, rank). Raises ValueError outside [-rank, rank)."""
    if not -rank <= dim < rank:
        raise ValueError(f"{what} is {dim}, out of range for rank {rank}: [{-rank}, {rank - 1}]")
    return dim + rank if dim < 0 else dim
