"""Columns of images whose rows no vector divides, in vectors that are aligned in each row.

    768 channels of 37 x 41, 16 bits, 4 lanes       row r begins in lane 1517*r % 4 of a vector

A thread has rows that all begin in one lane, so that its vectors have the same columns in each: it
loads and stores whole ones, and what its lanes came to is put where the columns belong when it
meets that of other threads. Its vectors lag behind the columns by as many as its rows begin in
lanes. So a block loads a vector before and one behind those that it stores, in some of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thunder_fuser.analysis.digits import Form, add, atom, ceil_div, combine
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.ir.domain import IterDomain, axis
from thunder_fuser.schedule.columns import ColumnAxes
from thunder_fuser.schedule.vector_axes import lane_of
from thunder_fuser.target import REGISTER_BYTES, WARP

STORED = WARP - 2  # vectors of each row, of a block that has a warp for it
VECTOR_BYTES = 8
FILLED = 0.85  # of these, at least, in the tiles of a row


@dataclass(frozen=True, eq=False)
class OddAxes(ColumnAxes):
    """The columns of an `image` are one row of it, in which lane 0 of a thread is at `first`, which
    may lie before it. A `vector` is a thread's, of a whole number of tiles an image."""

    image: IterDomain
    first: IterDomain

    @property
    def width(self) -> int:
        """Columns of an image."""
        return self.first.size + self.lanes - 1

    @property
    def columns(self) -> int:
        return self.image.size * self.width

    @property
    def bases(self) -> frozenset[IterDomain | None]:
        return frozenset({self.image, self.first, self.lane})

    @property
    def column(self) -> Form:
        inner = Form() if self.lane is None else atom(self.lane)
        return combine(atom(self.image), add(atom(self.first), inner), self.width)

    @property
    def tiles(self) -> int:
        """Of an image."""
        return tiles_of(self.width, self.lanes)

    @property
    def names(self) -> dict[IterDomain, str]:
        return {self.image: "image", self.first: "first", **super().names}


def tiles_of(width: int, lanes: int) -> int:
    """Tiles of a row, whose vectors may be one more than its elements fill."""
    return ceil_div(ceil_div(width + lanes - 1, lanes), STORED)


def lanes_of(itemsizes: Sequence[int]) -> list[int]:
    """Of vectors of tensors with such elements, what is preferred first: of words at least, two of
    them rather than more, of which a block would have a longer piece of each row."""
    narrow, wide = min(itemsizes), max(itemsizes)
    widths = (VECTOR_BYTES // narrow, REGISTER_BYTES // narrow)
    return [n for n in widths if 1 < n <= MAX_ALIGNMENT // wide]


def odd_axes(axes: ColumnAxes, width: int, lanes: int) -> OddAxes | None:
    """Those of `axes`, whose columns are rows of so many, in vectors of so many lanes; None where
    rows fill their tiles badly, or the plane ends inside a vector."""
    rows, images = axes.row.size, axes.columns // width
    tiles = tiles_of(width, lanes)
    is_filled = width >= FILLED * tiles * STORED * lanes
    if not is_filled or images * rows * width % lanes:
        return None
    vector, first = axis(images * tiles * WARP), axis(width - lanes + 1)
    return OddAxes(vector, lane_of(lanes), axis(rows), axis(images), first)
