"""Bilinear upsampling by whole factors: of neighbours rather than of rows that are gathered.

    y = interpolate(x, scale_factor=2)    =>    y = stack([.25 * before + .75 * x,
                                                           .75 * x + .25 * behind])

along each dim: each place becomes as many as the factor says, at fixed distances from it, and edges
are repeated. Thunder 0.2.6 takes computed rows, whose gradient is four sums by an index, each put
in order first. It refuses integers as scales, and `align_corners=False`, which says what None does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import thunder.torch as ltorch
import torch.nn.functional as F

from thunder_fuser.executor.operands import is_ours, part, wide_type
from thunder_fuser.executor.stand_ins import Compose

MAX_FACTOR = 4  # along a dim: a thread has as many values of each place, of two dims the square


def _interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    if not is_ours(input) or (size is None) == (scale_factor is None):
        return NotImplemented
    if align_corners or recompute_scale_factor or antialias:
        return NotImplemented
    scales = _floats(scale_factor)
    if mode != "bilinear" or input.ndim != 4:
        return ltorch.interpolate(input, size, scales, mode, align_corners)
    factors = _factors(input.shape[2:], size, scales)
    if factors is None:
        return ltorch.interpolate(input, size, scales, mode)
    result = ltorch.to(input, wide_type(input.dtype))
    for dim in (3, 2):
        result = _widened(result, dim, factors[dim - 2])
    return ltorch.to(result, input.dtype, copy=True)


def _widened(a: Any, dim: int, factor: int) -> Any:
    """Each place along a dim as `factor` places, whose centres share its extent."""
    extent = a.shape[dim]
    before = ltorch.cat((part(a, dim, 0, 1), part(a, dim, 0, extent - 1)), dim)
    behind = ltorch.cat((part(a, dim, 1, extent), part(a, dim, extent - 1, extent)), dim)
    places = []
    for place in range(factor):
        distance = (place + 0.5) / factor - 0.5  # from the centre, in places
        beside, share = (before, -distance) if distance < 0 else (behind, distance)
        weighted = ltorch.add(ltorch.mul(a, 1 - share), ltorch.mul(beside, share))
        places.append(weighted if share else a)
    shape = (*a.shape[:dim], extent * factor, *a.shape[dim + 1 :])
    return ltorch.reshape(ltorch.stack(places, dim + 1), shape)


def _factors(sizes: Sequence[int], size: Any, scales: Any) -> tuple[int, ...] | None:
    """By how much each dim grows; None unless that is whole, and small enough for one thread."""
    given = scales if size is None else size
    pair = tuple(given) if isinstance(given, Sequence) else (given, given)
    if len(pair) != 2 or not all(isinstance(g, int | float) for g in pair):
        return None
    found = pair if size is None else tuple(g / n for g, n in zip(pair, sizes, strict=True))
    is_fit = all(1 <= f <= MAX_FACTOR and f == int(f) for f in found)
    return tuple(map(int, found)) if is_fit else None


def _floats(scales: Any) -> Any:
    """Scales of which the integers are floats."""
    if isinstance(scales, Sequence):
        return tuple(map(_floats, scales))
    return float(scales) if type(scales) is int else scales


INTERPOLATIONS: dict[Any, Compose] = {F.interpolate: _interpolate}
