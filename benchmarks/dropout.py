"""Whether a mask is one that a dropout draws, whatever the numbers that it draws are made of."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

DOUBT = 18  # an honest share is refused once in e^18, 66 million


def believe(kept: torch.Tensor, keep: float, dtype: torch.dtype) -> None:
    """Raise ValueError unless a dropout that keeps a share `keep` of elements of `dtype` may have
    kept these: `kept`, bool (rows, columns), has neither too many nor too few of them among all
    elements, nor in any row or column."""
    lowest, highest = shares(keep, dtype)
    for where, counts, size in _counts(kept):
        low, high = size * lowest - _slack(size, lowest), size * highest + _slack(size, highest)
        odd = ((counts < low) | (counts > high)).nonzero()
        if len(odd):
            place = int(odd[0, 0])
            raise ValueError(
                f"the dropout kept {int(counts[place]) / size:.4f} of "
                f"{where.format(size=size, place=place)}, not {lowest:.4f} to {highest:.4f}"
            )


def shares(keep: float, dtype: torch.dtype) -> tuple[float, float]:
    """The smallest and the largest share that honest dropouts keep, for 1/2 < keep < 1.

    An element is kept where a uniform number u of [0, 1) is below `keep`. If u has 24 bits or more,
    that is a share of `keep`, to within 2^-24. Thunder draws u in the dtype of the elements, whose
    numbers from 1/2 to 1 lie a step apart: 2^-8 in bf16. Let n be keep / step, rounded up.

    * Cut off to the dtype, u is each multiple of the step with probability step, and n of them,
      from 0 to n - 1 steps, are below `keep`: a share of n steps. (Below 1/2 the numbers are finer,
      which matters to nobody: all of them are kept.)
    * Rounded to the nearest, u is below `keep` up to (n - 1/2) steps; and what lies in the last
      half step would become 1, which is not in [0, 1), and becomes 0: n steps again.
    * Where `keep` is rounded to the dtype before the comparison, n is that number of steps: keep /
      step, rounded up or down.

    In bf16 0.9 is 230.4 steps, so it becomes 230 / 256 = 0.8984 to 231 / 256 = 0.9023.
    """
    step = torch.finfo(dtype).eps / 2
    return math.floor(keep / step) * step, math.ceil(keep / step) * step


def _counts(kept: torch.Tensor) -> Iterator[tuple[str, torch.Tensor, int]]:
    """What is counted, how many were kept in each, and how many are one."""
    rows, columns = kept.shape
    yield "all {size} elements", kept.sum().reshape(1), kept.numel()
    yield "the {size} elements of row {place}", kept.sum(1), columns
    yield "the {size} elements of column {place}", kept.sum(0), rows


def _slack(size: int, share: float) -> float:
    """How far a count of `size` independent draws may lie from its mean: Bernstein's inequality,
    exp(-t^2 / (2 variance + 2 t / 3)) = exp(-DOUBT), solved for t."""
    variance = size * share * (1 - share)
    return DOUBT / 3 + math.sqrt((DOUBT / 3) ** 2 + 2 * DOUBT * variance)
