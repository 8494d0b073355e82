"""The cut of an axis as [m, d, c] that a placement makes: m blocks, each in d pieces of c.

    i: 24 as [3, 2, 4]       middle digit (i/4)%2       rest 4*(i/8) + i%4

d is a number of devices, m the split factor; m = 1 is an outer split, c = 1 an inner one. Sizes
that do not divide are cut as two outer splits do it. docs/axes.md, section 7, has the theory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from thunder_fuser.analysis.digits import ZERO, Form, ceil_div, combine, divmod_form, shift


@dataclass(frozen=True)
class Cut:
    """`device` is the middle digit, `extent` that of the local index."""

    device: Form
    outer: Form
    inner: Form
    rest: int
    factor: int

    @property
    def extent(self) -> int:
        return self.factor * self.rest

    @cached_property
    def local(self) -> Form:
        """The index in the device's buffer, made when asked for: most edges compare devices."""
        return self.inner if self.factor == 1 else combine(self.outer, self.inner, self.rest)


def take(index: Form, extent: int, factor: int, count: int) -> Cut:
    """Cut `index` as [factor, count, rest].

    The index is known to lie in [0, extent); where its form does not say so (a piece of a cat), the
    device is still one of `count`.
    """
    block = ceil_div(extent, factor)
    outer, within = divmod_form(index, block) if factor > 1 else (ZERO, index)
    rest = ceil_div(block, count)
    device, inner = divmod_form(within, rest)
    low, high = device.bounds
    if low < 0 or high >= count:
        device = divmod_form(device, count)[1]
    return Cut(device, outer, inner, rest, factor)


def is_even(extent: int, factor: int, count: int) -> bool:
    """Do all devices get the same number of elements?"""
    return extent % (factor * count) == 0


def is_regular(extent: int, factor: int, count: int) -> bool:
    """Is the cut that of DTensor? It cuts a short last block by that block's own size, which is no
    digit of the axis, unless a piece is one element."""
    return extent % factor == 0 or ceil_div(extent, factor) <= count


def local_extent(extent: int, factor: int, count: int) -> int:
    """The extent of the buffer of the first device."""
    return factor * ceil_div(ceil_div(extent, factor), count)


def local_size(extent: int, factor: int, count: int, rank: int) -> int:
    """How many of `extent` elements device `rank` of `count` holds: of every block a piece of c,
    less at the end of the block; the last block may be short."""
    block = ceil_div(extent, factor)
    piece = ceil_div(block, count)
    whole, last = divmod(extent, block) if block else (0, 0)

    def held(size: int) -> int:
        return min(max(size - rank * piece, 0), piece)

    return whole * held(block) + held(last)


def factors(device: Form, index: Form, extent: int, count: int) -> Iterator[int]:
    """Split factors under which `device` may be the middle digit of `index`: candidates, to be
    checked with `take`."""
    for factor in _candidates(device, index, extent, count):
        if is_regular(extent, factor, count):
            yield factor


def _candidates(device: Form, index: Form, extent: int, count: int) -> Iterator[int]:
    if not device.terms or extent < 2:
        return
    wanted = device.terms[0][1]
    for weight, digit in index.terms:
        if digit.base != wanted.base or wanted.stride % digit.stride:
            continue
        rest = weight * (wanted.stride // digit.stride)
        span = weight * digit.extent
        if 0 < rest < extent:
            yield ceil_div(extent, rest * count)
        if 0 < span < extent:
            yield extent // span
    if device.bases <= index.bases:
        yield 1


def turn(index: Form, extent: int, factor: int, count: int) -> tuple[Form, int] | None:
    """`(base, r)` where the device of `index` is (base + r) % count: a window that starts r whole
    blocks past an aligned one, so a rotation of the ring of devices by r aligns it (docs/axes.md,
    B3). None where it is aligned, or starts inside a block, or the blocks do not go round."""
    block = ceil_div(extent, factor)
    rest = ceil_div(block, count)
    blocks, inside = divmod(index.constant, rest)
    goes_round = factor == 1 or block == rest * count
    if inside or not goes_round or blocks % count == 0:
        return None
    distance = blocks % count
    return take(shift(index, -distance * rest), extent, factor, count).device, distance


def ring_source(coordinate: int, distance: int, count: int) -> int:
    """Who sends to `coordinate` in a rotation by `distance`: rank r sends to r - distance."""
    return (coordinate + distance) % count
