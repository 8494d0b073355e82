"""Parameters of which not all values meet, where all combinations would add only time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch

HALVES = (torch.bfloat16, torch.float16)
_A, _B, _C = TypeVar("_A"), TypeVar("_B"), TypeVar("_C")


def pairwise(
    first: Sequence[_A], second: Sequence[_B], third: Sequence[_C]
) -> list[tuple[_A, _B, _C]]:
    """Each of `first` with each of `second`, and one of `third` with both: each in turn, so that it
    meets all of them. It has no more values than the others."""
    assert len(third) <= min(len(first), len(second))
    return [
        (a, b, third[(i + j) % len(third)])
        for i, a in enumerate(first)
        for j, b in enumerate(second)
    ]


def in_turn(values: Sequence[_A], others: Sequence[tuple[_B, _C]]) -> list[tuple[_A, _B, _C]]:
    """Each of the values with one of the others, in turn."""
    return [(a, *others[k % len(others)]) for k, a in enumerate(values)]


def with_halves(values: Sequence[_A], *others: torch.dtype) -> list[tuple[_A, torch.dtype]]:
    """Each value with one of the 16-bit floats, in turn, and with each of the other types: kernels
    of the two have one width, and one text but for the name of the type."""
    return [(a, d) for k, a in enumerate(values) for d in (HALVES[k % 2], *others)]
