"""Movements of data that Thunder takes for torch's own, of ops that it sees into.

    t0 = ltorch.roll(x, 2)    =>    t0 = ltorch.cat([x[-2:], x[:-2]])

Thunder 0.2.6 registers each of these as an opaque torch op, which cuts a region in two and whose
gradient runs it again. Here they are for tensors of static shape that have elements; what torch
refuses, and what is not listed, stays torch's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import thunder.core.prims as prims
import thunder.torch as ltorch
import torch
import torch.nn.functional as F
from thunder.core.proxies import ProxyTag

from thunder_fuser.executor.operands import is_whole, part
from thunder_fuser.executor.stand_ins import Compose


def _roll(a: Any, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Any:
    """A tensor of its own, by however few places."""
    if not is_whole(a):
        return NotImplemented
    if dims is None or dims == ():
        if not isinstance(shifts, int):
            return NotImplemented
        return ltorch.reshape(_roll(ltorch.reshape(a, [-1]), shifts, 0), a.shape)
    many = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    along = (dims,) if isinstance(dims, int) else tuple(dims)
    if len(many) != len(along) or not all(-a.ndim <= d < a.ndim for d in along):
        return NotImplemented
    result = a
    for shift, dim in zip(many, along, strict=True):
        extent = a.shape[dim]
        first = (extent - shift) % extent
        if first:
            parts = (part(result, dim, first, extent), part(result, dim, 0, first))
            result = ltorch.cat(parts, dim)
    return ltorch.clone(a) if result is a else result


def _detach(a: Any) -> Any:
    """The same elements in the same memory, through which no gradient goes."""
    if not is_whole(a):
        return NotImplemented
    seen = prims.reshape(a, a.shape)
    seen.tags.add(ProxyTag.DETACHED_AUTOGRAD_GRAPH)
    return seen


def _narrow(a: Any, dim: int, start: Any, length: Any) -> Any:
    is_static = is_whole(a) and isinstance(start, int) and isinstance(length, int)
    if not is_static or not -a.ndim <= dim < a.ndim:
        return NotImplemented
    first = start + a.shape[dim] if start < 0 else start
    if length < 0 or not 0 <= first <= a.shape[dim] - length:
        return NotImplemented
    return part(a, dim, first, first + length)


def _ravel(a: Any) -> Any:
    return ltorch.reshape(a, [-1]) if is_whole(a) else NotImplemented


def _reshape_as(a: Any, other: Any) -> Any:
    return ltorch.reshape(a, other.shape) if is_whole(a, other) else NotImplemented


def _split_with_sizes(a: Any, split_sizes: Sequence[int], dim: int = 0) -> Any:
    if not is_whole(a) or not -a.ndim <= dim < a.ndim:
        return NotImplemented
    if min(split_sizes, default=0) < 0 or sum(split_sizes) != a.shape[dim]:
        return NotImplemented
    return ltorch.split(a, split_sizes, dim)


def _tile(a: Any, *dims: Any) -> Any:
    """Repeated along the last dims where there are fewer numbers than dims."""
    numbers = tuple(dims[0]) if len(dims) == 1 and isinstance(dims[0], Sequence) else dims
    if not is_whole(a) or not all(isinstance(n, int) and n >= 0 for n in numbers):
        return NotImplemented
    return own_repeat(a, (*(1,) * (a.ndim - len(numbers)), *numbers))


def own_repeat(a: Any, numbers: Sequence[int]) -> Any:
    """A tensor of its own, also where a view could tell it: of what is repeated by 1 or has 1."""
    result = ltorch.repeat(a, *numbers)
    pairs = zip(numbers[len(numbers) - a.ndim :], a.shape, strict=True)
    return result if any(n != 1 != extent for n, extent in pairs) else ltorch.clone(result)


def _flipped(dim: int) -> Compose:
    def flip(a: Any) -> Any:
        return ltorch.flip(a, dim) if is_whole(a) and a.ndim > dim else NotImplemented

    return flip


def _hstack(tensors: Any) -> Any:
    if not _are_alike(tensors):
        return NotImplemented
    return ltorch.cat(tensors, 0 if tensors[0].ndim == 1 else 1)


def _stacking(dim: int) -> Compose:
    """A vector is a row, or a column, of which there are several along that dim."""

    def stack(tensors: Any) -> Any:
        if not _are_alike(tensors):
            return NotImplemented
        return ltorch.cat([ltorch.unsqueeze(a, dim) if a.ndim == 1 else a for a in tensors], dim)

    return stack


def _are_alike(tensors: Any) -> bool:
    """True for tensors of as many dims, at least one, and of one type."""
    if not isinstance(tensors, Sequence) or not tensors or not is_whole(*tensors):
        return False
    return tensors[0].ndim > 0 and len({(a.ndim, a.dtype) for a in tensors}) == 1


def _pixel_shuffle(a: Any, upscale_factor: int) -> Any:
    """[..., C * r * r, H, W] => [..., C, H * r, W * r], a copy even where strides could tell it."""
    r = upscale_factor
    if not is_whole(a) or a.ndim < 3 or r < 1 or a.shape[-3] % (r * r):
        return NotImplemented
    *many, channels, height, width = a.shape
    split = ltorch.reshape(a, [*many, channels // (r * r), r, r, height, width])
    k = len(many)
    turned = ltorch.permute(split, (*range(k + 1), k + 3, k + 1, k + 4, k + 2))
    result = ltorch.reshape(turned, [*many, channels // (r * r), height * r, width * r])
    return ltorch.clone(result) if 1 in (r, height, width) else result


def _pixel_unshuffle(a: Any, downscale_factor: int) -> Any:
    """[..., C, H * r, W * r] => [..., C * r * r, H, W], a copy as well."""
    r = downscale_factor
    if not is_whole(a) or a.ndim < 3 or r < 1 or a.shape[-2] % r or a.shape[-1] % r:
        return NotImplemented
    *many, channels, height, width = a.shape
    split = ltorch.reshape(a, [*many, channels, height // r, r, width // r, r])
    k = len(many)
    turned = ltorch.permute(split, (*range(k + 1), k + 2, k + 4, k + 1, k + 3))
    result = ltorch.reshape(turned, [*many, channels * r * r, height // r, width // r])
    return ltorch.clone(result) if 1 in (r, height // r, width // r) else result


def _channel_shuffle(a: Any, groups: int) -> Any:
    """Channels of each group by turns; of one group, or one channel each, torch's is a view."""
    if not is_whole(a) or a.ndim < 3 or groups < 2 or a.shape[1] % groups or a.shape[1] == groups:
        return NotImplemented
    split = ltorch.reshape(a, [a.shape[0], groups, a.shape[1] // groups, *a.shape[2:]])
    return ltorch.reshape(ltorch.transpose(split, 1, 2), a.shape)


MOVEMENTS: dict[Any, Compose] = {
    F.channel_shuffle: _channel_shuffle,
    torch.column_stack: _stacking(1),
    torch.detach: _detach,
    torch.fliplr: _flipped(1),
    torch.flipud: _flipped(0),
    torch.hstack: _hstack,
    torch.narrow: _narrow,
    F.pixel_shuffle: _pixel_shuffle,
    F.pixel_unshuffle: _pixel_unshuffle,
    torch.ravel: _ravel,
    torch.roll: _roll,
    torch.row_stack: _stacking(0),
    torch.split_with_sizes: _split_with_sizes,
    torch.Tensor.reshape_as: _reshape_as,
    torch.tile: _tile,
    torch.vstack: _stacking(0),
}
