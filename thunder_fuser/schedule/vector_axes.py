"""A plane's columns as vectors of lanes, with which the axes of rows, columns and groups begin."""

from __future__ import annotations

from dataclasses import dataclass

from thunder_fuser.analysis.digits import Form, Loaded, atom, combine
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
    def column(self) -> Form:
        inner = Form() if self.lane is None else atom(self.lane)
        return combine(atom(self.vector), inner, self.lanes)

    @property
    def names(self) -> dict[IterDomain, str]:
        """What schedules, kernels and their text call the axes."""
        found = {self.vector: "vector"}
        return found if self.lane is None else {**found, self.lane: "lane"}

    def is_uniform(self, place: Loaded) -> bool:
        """True for a loaded index that is the same in all lanes."""
        return self.lane not in place.bases


def lane_of(lanes: int) -> IterDomain | None:
    """The axis of so many lanes; None for one."""
    return parallelize(axis(lanes), ParallelType.VECTORIZE) if lanes > 1 else None
