"""Means over windows that lie side by side, as parts of regions.

    y = avg_pool2d(x, 2)    =>    y = mean(reshape(x, [..., H / 2, 2, W / 2, 2]), (-3, -1))

Thunder 0.2.6 makes a convolution of each channel of it, with a filter of equal numbers, and of its
gradient one of a plane with zeros between; the adaptive one is an opaque torch op. Windows that
overlap or are padded stay so, as do adaptive ones of different sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import thunder.torch as ltorch
import torch.nn.functional as F

from thunder_fuser.executor.operands import is_ours, part
from thunder_fuser.executor.stand_ins import Compose

Sizes = int | Sequence[int]


def _averaging(count: int) -> Compose:
    """The mean of windows of `count` dims."""

    def avg_pool(
        input: Any,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        window = _numbers(kernel_size, count)
        if not _has_images(input, count) or window is None or divisor_override is not None:
            return NotImplemented
        steps = window if stride in (None, ()) else _numbers(stride, count)
        if steps != window or _numbers(padding, count) != (0,) * count or min(window) < 1:
            return NotImplemented
        sizes = input.shape[-count:]
        if any(n < k or (ceil_mode and n % k) for n, k in zip(sizes, window, strict=True)):
            return NotImplemented
        return _means(input, window)

    return avg_pool


def _adaptive(count: int) -> Compose:
    """The mean of as many windows as `output_size` says along each of `count` dims."""

    def adaptive_avg_pool(input: Any, output_size: Sizes) -> Any:
        windows = _numbers(output_size, count)
        if not _has_images(input, count) or windows is None or min(windows) < 1:
            return NotImplemented
        sizes = input.shape[-count:]
        if any(n % m for n, m in zip(sizes, windows, strict=True)):
            return NotImplemented
        return _means(input, tuple(n // m for n, m in zip(sizes, windows, strict=True)))

    return adaptive_avg_pool


def _means(a: Any, window: Sequence[int]) -> Any:
    """The mean of each window; what is left behind the last whole one is not read."""
    many = a.ndim - len(window)
    split, reduced = list(a.shape[:many]), []
    for dim, k in enumerate(window, start=many):
        count = a.shape[dim] // k
        if a.shape[dim] % k:
            a = part(a, dim, 0, count * k)
        split += [count, k]
        reduced.append(len(split) - 1)
    return ltorch.mean(ltorch.reshape(a, split), reduced)


def _has_images(a: Any, count: int) -> bool:
    """True for what has channels of `count` dims, in a batch or alone."""
    return is_ours(a) and a.ndim in (count + 1, count + 2)


def _numbers(given: Any, count: int) -> tuple[int, ...] | None:
    """One for each of `count` dims."""
    if isinstance(given, int):
        return (given,) * count
    if not isinstance(given, Sequence) or not all(isinstance(n, int) for n in given):
        return None
    numbers = tuple(given) * count if len(given) == 1 else tuple(given)
    return numbers if len(numbers) == count else None


POOLS: dict[Any, Compose] = {
    F.adaptive_avg_pool1d: _adaptive(1),
    F.adaptive_avg_pool2d: _adaptive(2),
    F.adaptive_avg_pool3d: _adaptive(3),
    F.avg_pool1d: _averaging(1),
    F.avg_pool2d: _averaging(2),
    F.avg_pool3d: _averaging(3),
}
