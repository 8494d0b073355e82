"""A plane's columns as vectors of lanes, with which the axes of rows, columns and groups begin."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from thunder_fuser.analysis.digits import Form, Loaded, add, atom, ceil_div, combine, divmod_form
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

    def aligned(self, start: Form) -> Form:
        """The place in a plane whose aligned vectors are walked from that one on in which `start`
        lies."""
        first, _ = divmod_form(start, self.lanes)
        inner = Form() if self.lane is None else atom(self.lane)
        return combine(add(first, atom(self.vector)), inner, self.lanes)

    @property
    def names(self) -> dict[IterDomain, str]:
        """What schedules, kernels and their text call the axes."""
        found = {self.vector: "vector"}
        return found if self.lane is None else {**found, self.lane: "lane"}

    def is_uniform(self, place: Loaded) -> bool:
        """True for a loaded index that is the same in all lanes."""
        return self.lane not in place.bases


def vectors_met(columns: int, lanes: int) -> int:
    """As many aligned vectors as a row meets that begins as late in its first as one does."""
    latest = lanes - gcd(columns, lanes)
    return ceil_div(latest + columns, lanes)


def lane_of(lanes: int) -> IterDomain | None:
    """The axis of so many lanes; None for one."""
    return parallelize(axis(lanes), ParallelType.VECTORIZE) if lanes > 1 else None
