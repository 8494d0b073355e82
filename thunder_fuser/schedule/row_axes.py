"""The axes of the row template: rows as aligned vectors and lanes, also where their length is odd.

4096 columns of bf16    vector{512}, lane{8}
4097                    vector{513}, lane{8}: those aligned in the plane that a row touches
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

from thunder_fuser.analysis.access import Element, Index
from thunder_fuser.analysis.digits import (
    Form,
    Opaque,
    add,
    atom,
    ceil_div,
    combine,
    divmod_form,
    evaluate,
    scale,
    unflatten,
    weight_of,
)
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.analysis.known import ANYWHERE, Known, whole
from thunder_fuser.analysis.layout import linear
from thunder_fuser.analysis.reductions import (
    is_reduction,
    row_shape,
    stretch_of,
)
from thunder_fuser.analysis.short_rows import Share, shifted_vectors
from thunder_fuser.analysis.views import elements_as_viewed
from thunder_fuser.ir.domain import IterDomain, axis
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Cost, Family
from thunder_fuser.schedule.row_planes import can_shift, plane_of, weights_of
from thunder_fuser.schedule.vector_axes import ShiftedAxes, VectorAxes, lane_of
from thunder_fuser.segment.segment import Segment

MIN_SHIFTED = 28  # vectors: shorter rows are mostly first and last ones
MIN_SHIFTED_WITH_A_WEIGHT = 1024  # columns; each row puts the weight's vectors together of two
MIN_SHIFTED_WITH_WEIGHTS = 4097  # and as many times so


@dataclass(frozen=True, eq=False)
class RowAxes(VectorAxes):
    """The axes of the template: a block's `group` of rows, the `turn` of a row in it, and inside
    the row `vector` and `lane`. Without column sums a group is one row; with them `row` is as they
    deal the `rows` of the plane out, of which the last turns of some groups may have none, or only
    those of its first sides. Of shifted ones the plane `ends` inside a vector, or does for other
    numbers of rows; where they have edges, vectors are those that lie in the row, and each element
    beside them is one thread's. Of rows that are parts of others, vectors are aligned where these
    `begin_at`."""

    group: IterDomain
    turn: IterDomain
    rows: int
    columns: int
    row: Form
    ends: bool = False
    side: IterDomain | None = None  # of the rows of a turn, where it has several
    share: Share | None = None  # a thread's of those, where they pass through shared memory
    keeps_sides: bool = False  # the sums down the columns are of each side
    has_edges: bool = False
    weights: int = 0  # inputs of as many columns, whose rows begin in other lanes
    begin_at: Form | None = None  # places in what is read, where nothing is of the plane
    sample: Window | None = None  # where the rows of each were dealt unevenly: its row, of so many

    @property
    def is_shifted(self) -> bool:
        """True where rows begin in any lane of a vector."""
        return self.columns % self.lanes > 0

    @property
    def sides(self) -> int:
        """Rows of a turn."""
        return 1 if self.side is None else self.side.size

    @property
    def has_runs(self) -> bool:
        """True where the vectors of a thread are neighbours."""
        return self.share is not None and self.share.runs

    @property
    def _over_rows(self) -> tuple[IterDomain, ...]:
        """The axes over rows, outermost first."""
        return (self.group, self.turn) if self.side is None else (self.group, self.turn, self.side)

    @property
    def _summing(self) -> tuple[IterDomain, ...]:
        """Those of them that tell which sum down the columns a row is part of."""
        own = {self.group, self.side} if self.keeps_sides else {self.group}
        return tuple(a for a in self._over_rows if a in own)

    @property
    def walked(self) -> Form:
        """The row among those that are summed together."""
        summing = self._summing
        return _number(a for a in self._over_rows if a not in summing)

    @property
    def summed(self) -> Form:
        """What has sums down the columns: a group, or each side of one."""
        return _number(self._summing)

    @property
    def sums(self) -> int:
        """How many groups or sides of groups have sums."""
        return prod(a.size for a in self._summing)

    @property
    def fixed(self) -> frozenset[IterDomain]:
        """Axes that have one value in all turns: of the rows that are summed together, where a
        block walks more than one."""
        walks = self.keeps_sides or self.turn.size > 1
        return frozenset(self._summing) if walks else frozenset()

    @property
    def dealt(self) -> Window:
        """The row among those that were dealt out together, and how many these are."""
        return self.sample or Window(self.row, self.rows)

    def row_index(self, shape: Sequence[int]) -> Index:
        """The index of the row in what has an element for each. That of a sample is known to be in
        it."""
        if self.sample is not None:
            samples = self.rows // self.sample.extent
            own, _ = divmod_form(atom(self.group), self.group.size // samples)
            for cut in range(len(shape)):
                if prod(shape[:cut]) == samples:
                    inner = unflatten(self.sample.form, shape[cut:])
                    return (*unflatten(own, shape[:cut]), *inner)
        return unflatten(self.row, shape)

    @property
    def fewest(self) -> int:
        """Turns of the last group, which has as few as any."""
        if not self.is_uneven:
            return self.turn.size
        last = {self.group: self.group.size - 1, **({self.side: 0} if self.side else {})}
        turns = reversed(range(self.turn.size))
        form, extent = self.dealt.form, self.dealt.extent
        return next(t + 1 for t in turns if evaluate(form, {**last, self.turn: t}) < extent)

    @property
    def is_uneven(self) -> bool:
        """True where the last turns of some groups have no row."""
        return prod(a.size for a in self._over_rows) != self.rows

    @property
    def is_ragged(self) -> bool:
        """True where some sides of a turn have a row and others none."""
        if self.side is None or not self.is_uneven:
            return False
        first = {self.group: 0, self.turn: 0, self.side: 0}
        form, extent = self.dealt.form, self.dealt.extent
        apart = evaluate(form, {**first, self.side: 1}) - evaluate(form, first)
        return apart != 1 or extent % self.side.size != 0

    def holds(self, window: Window) -> bool:
        """True for what says no more than that there is such a row, as blocks walk no others, or
        that a place lies in it where threads have no others."""
        form, extent = window.form, window.extent
        if window == self.sample or (self.has_edges and self.is_inside(window)):
            return True
        if extent % self.rows == 0:
            return divmod_form(form, extent // self.rows)[0] == self.row
        return self.rows % extent == 0 and divmod_form(self.row, self.rows // extent)[0] == form

    @property
    def known(self) -> Known:
        """That a row is one of the plane, where blocks might walk others."""
        if not self.is_uneven or self.sample is not None:
            return ANYWHERE
        return {whole(Opaque(self.row)): (0, self.rows - 1)}

    def is_inside(self, window: Window) -> bool:
        """True for what says no more than that a place lies in the row, or what that is part of."""
        before = add(window.form, scale(self.column, -1))
        if not before.terms:
            return 0 <= before.constant <= window.extent - self.columns
        if self.columns % window.extent:
            return False
        return divmod_form(self.column, self.columns // window.extent)[0] == window.form

    def goes_on(self, offset: Form) -> bool:
        """True where the next row, if there is one, lies behind the vectors of a shifted one, of
        which one begins at `offset`."""
        start = add(offset, scale(self.shifted.inside.form, -1))
        step = weight_of(start, self.group) or 0
        if step >= self.columns and not add(start, scale(self.row, -step)).terms:
            return True
        least, outer = self.columns, 1  # as where every other head of each sample is read
        for weight, digit in sorted(start.terms, key=lambda term: term[1].stride):
            if digit.base is not self.group or digit.stride != outer or weight < least:
                return False
            least, outer = weight * digit.extent, outer * digit.extent
        return self.row == atom(self.group) and outer >= self.rows

    def side_by_side(self, count: int) -> RowAxes:
        """With so many rows of a group in each turn, of which there are fewer."""
        axes = replace(self, turn=axis(self.turn.size // count), side=axis(count))
        return replace(axes, row=combine(atom(self.group), axes.walked, self.turn.size))

    def keeping_sides(self, count: int) -> RowAxes:
        """With so many of the groups side by side in one of which each has its own sums."""
        group, side = axis(self.group.size // count), axis(count)
        axes = replace(self, group=group, side=side, keeps_sides=True)
        return replace(axes, row=combine(atom(axes.turn), axes.summed, axes.sums))

    def staged(self, share: Share) -> RowAxes:
        """With the vectors of such a share, which threads take out of shared memory."""
        vector, lane = axis(self.columns // share.lanes), lane_of(share.lanes)
        return replace(self, vector=vector, lane=lane, share=share)

    @property
    def column(self) -> Form:
        """The place in the row. Rows whose length is no multiple of the lanes begin anywhere in a
        vector of the plane: shifted axes walk its aligned vectors, from the one in which the row
        begins, so that the first places may lie before the row and the last ones beyond it."""
        return self.shifted.column if self.is_shifted else super().column

    @property
    def shifted(self) -> ShiftedAxes:
        """Those of a row."""
        start = self.begin_at or scale(self.row, self.columns)
        return ShiftedAxes(self.vector, self.lane, start, self.columns)

    @property
    def flat(self) -> Form:
        """The place in the plane, of shifted axes a whole number of vectors and the lane."""
        if not self.is_shifted:
            return add(scale(self.row, self.columns), self.column)
        return self.aligned(self.shifted.start)

    @property
    def names(self) -> dict[IterDomain, str]:
        sides = {} if self.side is None else {self.side: "side"}
        return {self.group: "group", self.turn: "turn", **sides, **super().names}

    @property
    def is_covered(self) -> bool:
        """True where the plane has all vectors of all rows: the last row needs as many as any."""
        is_least = self.vector.size == ceil_div(self.columns, self.lanes)
        return self.has_edges or self.begin_at is not None or (not self.ends and is_least)

    @property
    def edges(self) -> int:
        """The most elements of a shifted row that lie beside its whole vectors, at both ends."""
        return 2 * (self.lanes - gcd(self.columns, self.lanes))

    @property
    def whole_vectors(self) -> tuple[int, int]:
        """The fewest that lie in a shifted row, and the most."""
        fewest = self.columns - self.lanes + gcd(self.columns, self.lanes)
        return fewest // self.lanes, self.columns // self.lanes

    @property
    def vectors(self) -> int:
        """The most that threads share out of a row."""
        return self.whole_vectors[1] if self.has_edges else self.vector.size

    @property
    def inside(self) -> tuple[Window, ...]:
        """What tells places of the row from others that its vectors reach."""
        reach = self.is_shifted and not self.has_edges
        return (Window(self.column, self.columns),) if reach else ()


def _number(axes: Iterable[IterDomain]) -> Form:
    """The number of a point of `axes`, outermost first."""
    number = Form()
    for inner in axes:
        number = combine(number, atom(inner), inner.size)
    return number


def row_axes(
    segment: Segment,
    long: Sequence[TensorView],
    shape: tuple[int, int],
    turns: int,
    groups: int,
) -> RowAxes:
    """The axes over a plane of `shape` that `long` reductions walk, if any do, in so many `groups`
    of up to `turns` rows."""
    rows, columns = shape
    plane = plane_of(segment, shape)
    stretch = gcd(*(stretch_of(tv) for tv in long if row_shape(tv) is not None))
    lanes = plane.lanes
    weights = weights_of(segment, shape)
    least = MIN_SHIFTED_WITH_WEIGHTS if weights > 1 else MIN_SHIFTED_WITH_A_WEIGHT
    is_short = columns < (least if weights else MIN_SHIFTED * lanes)
    is_odd = bool(long) and turns == 1 and columns % lanes and not is_short
    is_busy = columns < MIN_SHIFTED_WITH_A_WEIGHT and _is_busy(segment, rows * columns)
    shifts = is_odd and not is_busy and can_shift(segment, plane, long)
    if not shifts:
        lanes = gcd(lanes, columns, stretch)
    group, turn = axis(groups), axis(turns)
    row = combine(atom(group), atom(turn), turns)
    vectors = axis(columns // lanes), lane_of(lanes)
    axes = RowAxes(*vectors, group, turn, rows, columns, row, weights=weights)
    return _shifted(axes, lanes) if shifts else axes


def shifted(segment: Segment, long: Sequence[TensorView], axes: RowAxes) -> RowAxes | None:
    """The axes of a block that walks rows as shifted ones, where all of its rows begin in the same
    lane, so that it has the same columns of each; None where that is so without."""
    plane = plane_of(segment, (axes.rows, axes.columns))
    lanes = plane.lanes
    if axes.columns % lanes == 0 or not can_shift(segment, plane, long):
        return None
    made = _shifted(axes, lanes)
    return None if {axes.turn, axes.side} & made.column.bases else made


def _shifted(axes: RowAxes, lanes: int) -> RowAxes:
    vector = axis(shifted_vectors(axes.columns, lanes))
    ends = axes.rows * axes.columns % lanes != 0
    return replace(axes, vector=vector, lane=lane_of(lanes), ends=ends)


def _is_busy(segment: Segment, elements: int) -> bool:
    """True where each of so many stored elements has several costly values of memory alone, such as
    a capped score and its exponential below a maximum that was saved. Threads of shifted vectors
    have up to 33 elements, of which registers hold one such value, or eight for every six that the
    row has. Not where elements are drawn, four at a time."""
    if not any(prod(s.target.shape) == elements for s in segment.stores):
        return False
    reduced: set[TensorView] = set()
    costly = 0
    for tv in segment.tensors:
        made = tv.definition
        if made is None or tv in segment.leaves:
            continue
        if made.op.family is Family.RANDOM:
            return False
        if is_reduction(tv) or not reduced.isdisjoint(made.tensors):
            reduced.add(tv)
        elif made.op.cost is Cost.EXPENSIVE and prod(tv.shape) == elements:
            costly += 1
    return costly > 1


def row_of(term: Element, axes: RowAxes) -> Form:
    """The row in which a term lies, that a sum down the columns takes at (group, turn): of what is
    behind views, unless that is numbered in another order, as an image that has channels innermost
    in memory alone."""
    behind = reversed(list(elements_as_viewed(term)))
    rows = [divmod_form(linear(tv.shape, index), axes.columns)[0] for tv, index in behind]
    return next((row for row in rows if row.bases.isdisjoint(axes.bases)), rows[0])


def along(axes: RowAxes, sizes: Sequence[int]) -> Index:
    """The index of each dim of a row."""
    return unflatten(axes.column, sizes)


def is_of_row(offset: Form, axes: RowAxes) -> bool:
    """True for elements that depend on the row, if there are several, and on the place in it."""
    row = axes.row.bases - axes.fixed
    return axes.vector in offset.bases and not (row and row.isdisjoint(_start(offset, axes).bases))


def is_of_all_rows(offset: Form, axes: RowAxes) -> bool:
    """True for elements that depend on the place in a row, and on nothing else that changes from
    turn to turn: weights."""
    same = axes.bases | axes.fixed
    return axes.vector in offset.bases and _start(offset, axes).bases <= same


def _start(offset: Form, axes: RowAxes) -> Form:
    """The offset without what the place in a shifted row, which depends on the row, adds to it."""
    return add(offset, scale(axes.column, -1)) if axes.is_shifted else offset
