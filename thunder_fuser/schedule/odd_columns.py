"""Columns of images whose rows no vector divides, in vectors that are aligned in each row.

    768 channels of 37 x 41, 16 bits, 4 lanes       row r begins in lane 1517*r % 4 of a vector

A thread has rows that all begin in one lane, so that its vectors have the same columns in each: it
loads and stores whole ones, and what its lanes came to is put where the columns belong when it
meets that of other threads. Its vectors lag behind the columns by as many as its rows begin in
lanes. So a block loads a vector before and one behind those that it stores, in some of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from thunder_fuser.analysis.digits import Form, add, atom, combine
from thunder_fuser.analysis.odd_columns import STORED, tiles_of
from thunder_fuser.ir.domain import IterDomain, axis
from thunder_fuser.schedule.column_axes import ColumnAxes
from thunder_fuser.schedule.vector_axes import lane_of
from thunder_fuser.target import WARP


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
        return combine(atom(self.image), add(atom(self.first), self.inner), self.width)

    @property
    def tiles(self) -> int:
        """Of an image."""
        return tiles_of(self.width, self.lanes)

    @property
    def stored(self) -> int:
        """Columns of a tile."""
        return STORED * self.lanes

    @property
    def padded(self) -> Form:
        """The column where each image has whole tiles."""
        place = add(atom(self.first), self.inner)
        return combine(atom(self.image), place, self.tiles * self.stored)

    @property
    def names(self) -> dict[IterDomain, str]:
        return {self.image: "image", self.first: "first", **super().names}


def odd_axes(axes: ColumnAxes, width: int, lanes: int) -> OddAxes:
    """Those of `axes`, whose columns are rows of so many, in vectors of so many lanes."""
    images = axis(axes.columns // width)
    vector, first = axis(images.size * tiles_of(width, lanes) * WARP), axis(width - lanes + 1)
    return OddAxes(vector, lane_of(lanes), axis(axes.row.size), images, first)
