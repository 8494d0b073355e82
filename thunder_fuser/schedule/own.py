"""Values of an axis for one thread, so that it loads once what does not depend on the axis.

    q[h, t, d] = x[t, h, d] * cos[t, d] + ...     h{28}      =>      h = 7 o + u, u in one thread

That is one load of cos for seven elements. It pays where what is read again is a sizable part of
all that a class moves, and where no cache near the multiprocessor holds it until then: between two
heads the threads walk all of cos, but between two rows only the one row of a bias. It pays sooner
where the L2 cache does not hold what lies between either. The stores of one thread may lie far
apart, as long as threads side by side write whole sectors with each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from math import prod

from thunder_fuser.analysis.digits import atom, combine, loads_in
from thunder_fuser.analysis.layout import MAX_ALIGNMENT, offset_of
from thunder_fuser.ir.domain import IterDomain, split
from thunder_fuser.schedule.classes import IterationClass, in_one_thread
from thunder_fuser.schedule.nest import MAX_INSTANCES, Nest, neighbours_along
from thunder_fuser.schedule.parameters import FIFTH, MAX_LOADED, MapParameters
from thunder_fuser.schedule.slabs import turned
from thunder_fuser.schedule.vectorize import lanes_of
from thunder_fuser.target import SECTOR

ROWS_AT_ONCE = 2  # of a table: four take registers, and memory is busy with two
ELEMENTS_BESIDE = 32  # of a thread, four rows of eight: more have little more in common
NEARLY = 0.75  # of what can be saved; inner axes are better than the rest, as neighbours are read


@dataclass(frozen=True)
class _Load:
    """An element that a point of the parallel axes reads: its bytes, and axes it depends on; axes
    along which it is read again, as no cache kept it; bytes that come from afar."""

    itemsize: int
    bases: frozenset[IterDomain]
    again: frozenset[IterDomain]
    cost: float


@dataclass(frozen=True, eq=False)
class _Traffic:
    """What one point of the parallel axes of a class reads and writes. Loads are those that differ
    from lane to lane; others are few beside them."""

    group: IterationClass
    loads: tuple[_Load, ...]

    @property
    def moved(self) -> float:
        """Bytes that are loaded or stored."""
        stored = sum(n.instances * n.store.target.dtype.itemsize for n in self.group.nests)
        return stored + sum(x.cost for x in self.loads)

    def between(self, axis: IterDomain) -> float:
        """Bytes that are moved until what the values of `axis` share is loaded again: by the next
        value of the innermost axis along which it is."""
        again = {a for x in self.loads if axis in x.again for a in x.again}
        inside = takewhile(lambda a: a not in again, reversed(self.group.axes))
        return self.moved * prod(a.size for a in inside)

    def again(self, axis: IterDomain) -> float:
        """Bytes that are loaded for another value of `axis` too. Where nothing read depends on it
        those from a cache count as well: each thread would load and compute the same, for a store
        of its own."""
        if not self.is_read(axis):
            return sum(x.itemsize for x in self.loads)
        return sum(x.cost for x in self.loads if axis in x.again)

    def is_read(self, axis: IterDomain) -> bool:
        """True where something read depends on `axis`."""
        return any(axis in form.bases for form in self.group.forms_read)

    def loaded(self, axis: IterDomain, factor: int) -> int:
        """Bytes that a thread with `factor` values of `axis` loads per lane."""
        return sum(x.itemsize * (factor if axis in x.bases else 1) for x in self.loads)


def own(group: IterationClass, parameters: MapParameters, points: int) -> IterationClass:
    """`group`, whose axes are in walking order, with several values of one of them in one thread.
    `points` are those of the parallel axes of all classes of the launch. Classes that write pieces
    of one store stay as they are: they take turns over the same lines, all at one pace."""
    if parameters.reused == 1 or not all(nest.is_whole for nest in group.nests):
        return group
    found = _most_saved(group, parameters, points) or _looked_up(group, parameters, points)
    if found is not None:
        return _owned(group, *found)
    rows = _of_neighbours(group, parameters, points)
    if rows is None:
        return group
    made = _owned(group, *rows)
    return replace(made, nests=tuple(replace(nest, is_beside=True) for nest in made.nests))


def _of_neighbours(
    group: IterationClass, parameters: MapParameters, points: int
) -> tuple[IterDomain, int] | None:
    """The innermost axis along which elements read their neighbours in other rows, and rows for a
    thread: of four it loads and converts six, and computes once what two of them need. Of rows of
    narrower vectors it has more."""
    loads, copies = list(group.loads), max(nest.instances for nest in group.nests)
    lanes = lanes_of(group, parameters)
    for axis in reversed(group.axes[:-1]):
        near = neighbours_along(loads, axis)
        if near and _writes_sectors(group, axis):
            fitting = (
                rows
                for rows in range(2, 1 + parameters.reused)
                if axis.size % rows == 0
                and points // rows >= parameters.busy
                and rows * copies * lanes <= ELEMENTS_BESIDE
                and sum((rows + far) * tv.dtype.itemsize for tv, far in near.items()) * lanes
                <= MAX_LOADED
            )
            most = max(fitting, default=1)
            return (axis, most) if most > 1 else None
    return None


def _looked_up(
    group: IterationClass, parameters: MapParameters, points: int
) -> tuple[IterDomain, int] | None:
    """The innermost axis along which indices lie, and rows of a table for a thread: it waits for
    where a row is, and for the row behind that, so that with one vector a thread memory is half
    idle. The index of the next row comes with that of the first. Not of rows of narrower vectors:
    of 34 halves they took half as long again."""
    bases = frozenset[IterDomain]().union(*(p.bases for p in loads_in(group.forms_read)))
    if bases.isdisjoint(group.axes) or group.axes[-1] in bases:
        return None
    if any(group.axes[-1].size * n.store.value.dtype.itemsize % MAX_ALIGNMENT for n in group.nests):
        return None
    if points // ROWS_AT_ONCE < parameters.busy:
        return None
    copies = max(nest.instances for nest in group.nests)
    along = (a for a in reversed(group.axes) if a in bases and a.size % ROWS_AT_ONCE == 0)
    axis = next(along, None)
    return None if axis is None or copies > 1 else (axis, ROWS_AT_ONCE)


def _most_saved(
    group: IterationClass, parameters: MapParameters, points: int
) -> tuple[IterDomain, int] | None:
    """The axis, and how many of its values, by which most bytes are saved or nearly so: the
    innermost of several."""
    if all(axis in form.bases for form in group.forms_read for axis in group.axes):
        return None
    if turned(group, parameters.lanes, parameters.busy) is not None:
        return None
    traffic, saved = _traffic(group, parameters.kept), dict[tuple[IterDomain, int], float]()
    for axis in group.axes:
        again = traffic.again(axis)
        enough = FIFTH if 2 * traffic.between(axis) > parameters.cache else parameters.again
        if again and 100 * again >= enough * traffic.moved and _writes_sectors(group, axis):
            factor = _factor(traffic, axis, parameters, points)
            saved[axis, factor] = again * (1 - 1 / factor)
    most = max(saved.values(), default=0)
    good = [found for found, value in saved.items() if value >= NEARLY * most]
    return good[-1] if most else None


def _traffic(group: IterationClass, kept: int) -> _Traffic:
    loads = (
        _load(group.axes, tv.dtype.itemsize, form.bases, kept, share)
        for (tv, form), share in group.loads.items()
    )
    return _Traffic(group, tuple(load for load in loads if group.axes[-1] in load.bases))


def _load(
    axes: Sequence[IterDomain],
    itemsize: int,
    bases: frozenset[IterDomain],
    kept: int,
    share: float,
) -> _Load:
    """Between two values of an axis that it does not depend on, all of the axes inside is read: up
    to `kept` bytes are then in a cache still. A `share` of the points reads it."""
    again, cost, window = set[IterDomain](), share * itemsize, itemsize
    for axis in reversed(axes):
        if axis in bases:
            window *= axis.size
        elif window > kept:
            again.add(axis)
        else:
            cost /= axis.size
    return _Load(itemsize, bases, frozenset(again), cost)


def _factor(traffic: _Traffic, axis: IterDomain, parameters: MapParameters, points: int) -> int:
    """How many values a thread can own. Stores of one value need no more loads and registers."""
    copies = max(nest.instances for nest in traffic.group.nests)
    room = MAX_LOADED // _lanes(traffic, parameters)
    most = parameters.reused if traffic.is_read(axis) else parameters.owned
    fitting = (
        factor
        for factor in range(2, 1 + most)
        if axis.size % factor == 0
        and copies * factor <= MAX_INSTANCES
        and points // factor >= parameters.busy
        and traffic.loaded(axis, factor) <= room
    )
    return max(fitting, default=1)


def _lanes(traffic: _Traffic, parameters: MapParameters) -> int:
    """The lanes of a thread that computes several vectors, at most."""
    widest = MAX_ALIGNMENT // min(x.itemsize for x in traffic.loads)
    return max(min(widest, parameters.lanes_of_owners), 1)


def _writes_sectors(group: IterationClass, axis: IterDomain) -> bool:
    """True where threads side by side fill sectors between them with one value of `axis`."""
    return all(_stretch(group, nest, axis) >= SECTOR for nest in group.nests)


def _stretch(group: IterationClass, nest: Nest, axis: IterDomain) -> int:
    """Bytes that a nest stores side by side without the values of `axis`."""
    target = nest.store.target
    terms = offset_of(group.segment.layouts[target], nest.index).terms
    reach = 1
    for weight, digit in reversed(terms):  # by rising weight
        if weight == reach and digit.is_whole and digit.base is not axis:
            reach *= digit.extent
    return reach * target.dtype.itemsize


def _owned(group: IterationClass, axis: IterDomain, factor: int) -> IterationClass:
    """`group` with `factor` neighbouring values of `axis` in one thread."""
    outer, inner = split(axis, factor)
    return in_one_thread(group, axis, outer, inner, combine(atom(outer), atom(inner), factor))
