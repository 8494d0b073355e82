"""A plane's columns as vectors of lanes, with which the axes of rows, columns and groups begin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from thunder_fuser.analysis.digits import (
    Form,
    Loaded,
    add,
    atom,
    combine,
    divmod_form,
    scale,
    substitute,
)
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.ir.domain import IterDomain, ParallelType, axis, parallelize


@dataclass(frozen=True, eq=False)
class VectorAxes:
    """The columns of a plane, cut into vectors: column = vector * lanes + lane."""

    vector: IterDomain
    lane: IterDomain | None

    @property
    def lanes(self) -> int:
        return 1 if self.lane is None else self.lane.size

    @property
    def inner(self) -> Form:
        """The place in a vector."""
        return Form() if self.lane is None else atom(self.lane)

    @property
    def column(self) -> Form:
        return combine(atom(self.vector), self.inner, self.lanes)

    @property
    def bases(self) -> frozenset[IterDomain | None]:
        """What the column depends on. The places of a row of one vector differ in the lane."""
        return frozenset({self.vector, self.lane})

    def aligned(self, start: Form) -> Form:
        """The place in a plane whose aligned vectors are walked from that one on in which `start`
        lies."""
        first, _ = divmod_form(start, self.lanes)
        return combine(add(first, atom(self.vector)), self.inner, self.lanes)

    def begin(self, form: Form) -> Form:
        """`form` in the first lane of a vector."""
        return form if self.lane is None else substitute(form, {self.lane: Form()})

    @property
    def names(self) -> dict[IterDomain, str]:
        """What schedules, kernels and their text call the axes."""
        found = {self.vector: "vector"}
        return found if self.lane is None else {**found, self.lane: "lane"}

    def is_uniform(self, place: Loaded) -> bool:
        """True for a loaded index that is the same in all lanes."""
        return self.lane not in place.bases


@dataclass(frozen=True, eq=False)
class ShiftedAxes(VectorAxes):
    """A row of `columns` that begins at `start` of a plane, anywhere in a vector, in the vectors
    that are aligned there: the first and the last one lie in two rows."""

    start: Form
    columns: int

    @property
    def column(self) -> Form:
        return add(self.aligned(self.start), scale(self.start, -1))

    @property
    def inside(self) -> Window:
        """What tells the places of the row from those beside it, by the first one of a vector."""
        return Window(self.begin(self.column), self.columns)

    def is_along(self, offset: Form) -> bool:
        """True for elements that lie side by side along the row. `offset` may be a vector's."""
        column = self.column if self.lane in offset.bases else self.inside.form
        return add(offset, scale(column, -1)).bases.isdisjoint(self.bases)

    def fits(self, offsets: Iterable[Form]) -> bool:
        """True where all that differs along the row lies side by side there."""
        return all(self.vector not in offset.bases or self.is_along(offset) for offset in offsets)


def lane_of(lanes: int) -> IterDomain | None:
    """The axis of so many lanes; None for one."""
    return parallelize(axis(lanes), ParallelType.VECTORIZE) if lanes > 1 else None
