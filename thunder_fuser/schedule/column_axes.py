"""The axes of a plane whose columns are reduced: rows that threads walk, vectors that they have."""

from __future__ import annotations

from dataclasses import dataclass, field

from thunder_fuser.analysis.digits import Form, add, atom, combine, divmod_form, scale
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.schedule.vector_axes import VectorAxes
from thunder_fuser.target import WARP


@dataclass(frozen=True, eq=False)
class ColumnAxes(VectorAxes):
    """The reduced `row`, and the kept `vector` and `lane`. Of the last row a plane of so many
    `elements` has only some, None for all."""

    row: IterDomain
    elements: int | None = field(default=None, kw_only=True)

    @property
    def columns(self) -> int:
        return self.vector.size * self.lanes

    @property
    def size(self) -> int:
        """Elements of the plane."""
        return self.elements or self.row.size * self.columns

    @property
    def vectors_of_last(self) -> int:
        """That the last row has the whole of."""
        return self.size // self.lanes - (self.row.size - 1) * self.vector.size

    @property
    def has_end(self) -> bool:
        """True where the plane ends inside a vector."""
        return self.size % self.lanes != 0

    @property
    def flat(self) -> Form:
        """The place in the plane."""
        return add(self.column, scale(atom(self.row), self.columns))

    def in_images(self, vectors: int) -> Form:
        """The place in memory where rows of so many vectors lie one after another, and behind the
        last of them those of the next columns."""
        width = vectors * self.lanes
        image, place = divmod_form(self.column, width)
        row = add(atom(self.row), scale(image, self.row.size))
        return add(scale(row, width), place)

    def holds(self, window: Window) -> bool:
        """True for what says no more than that a place lies in the plane."""
        if self.elements is None or self.elements % window.extent:
            return False
        return divmod_form(self.flat, self.elements // window.extent)[0] == window.form

    @property
    def names(self) -> dict[IterDomain, str]:
        return {self.row: "row", **super().names}


@dataclass(frozen=True, eq=False)
class ApartColumns(ColumnAxes):
    """Of rows that no vector divides: threads side by side have columns that are, and the lanes of
    a thread lie as far apart as a warp is wide."""

    @property
    def column(self) -> Form:
        group, place = divmod_form(atom(self.vector), WARP)
        return combine(group, combine(self.inner, place, WARP), WARP * self.lanes)
