"""T1, the map template: every stored element is a function of elements read.

One thread owns one vector of the innermost axis and all unrolled copies of it; threads are numbered
along the parallel axes, the innermost fastest.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from thunder_fuser.analysis.access import demand
from thunder_fuser.analysis.digits import Form, atom, combine
from thunder_fuser.analysis.layout import MAX_ALIGNMENT, offset_of
from thunder_fuser.ir.domain import IterDomain, ParallelType, parallelize, split
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.classes import MAX_OWNED, IterationClass, classify
from thunder_fuser.schedule.nest import refine, replace_axis
from thunder_fuser.schedule.order import arrange
from thunder_fuser.segment.segment import Segment
from thunder_fuser.target import Target

MAX_LANES = 8  # elements of one vector: 16 bytes of the 2-byte types
MAX_RUN_BYTES = 64  # registers that one load may fill
FEW_STORES = 2  # of one thread; with more, half as many lanes keep the same bytes in flight
BUSY_THREADS = 512  # per multiprocessor: below it latency, not bandwidth, decides


@dataclass(frozen=True)
class MapParameters:
    """What may be tuned without changing any result."""

    threads: int = 128  # of one block
    lanes: int = MAX_LANES  # elements of one vector, at most
    owned: int = MAX_OWNED  # values of an axis that one thread may own beyond its vector
    busy: int = 1  # elements that run in parallel, below which threads own nothing extra
    streamed: int = 1 << 62  # bytes of a store from which on it bypasses the cache


@dataclass(frozen=True, eq=False)
class VectorClass:
    """An iteration class whose innermost axis is cut into lanes; None where a thread has one."""

    group: IterationClass
    lane: IterDomain | None
    streams: bool

    @property
    def lanes(self) -> int:
        return 1 if self.lane is None else self.lane.size

    @property
    def axes(self) -> tuple[IterDomain, ...]:
        return tuple(a for a in self.group.axes if a is not self.lane)

    @property
    def threads(self) -> int:
        return prod(a.size for a in self.axes)


@dataclass(frozen=True, eq=False)
class MapSchedule:
    segment: Segment
    classes: tuple[VectorClass, ...]
    parameters: MapParameters


def parameters_for(target: Target) -> MapParameters:
    """The configuration that the model ranks first.

    Sharing loads inside a thread pays while there are threads enough to fill the machine; a smaller
    problem is bound by latency and gets as many threads as it can.
    """
    busy = target.multiprocessors * BUSY_THREADS * MAX_LANES
    return MapParameters(busy=busy, streamed=max(target.l2_bytes, 1))


def schedule(segment: Segment, parameters: MapParameters) -> MapSchedule:
    """The loop domains of a segment under T1."""
    nests = [nest for store in segment.stores for nest in refine(segment, store)]
    groups = classify(segment, nests, parameters.owned, parameters.busy)
    ordered = [arrange(g) for g in groups]
    classes = tuple(_vectorize(g, parameters) for g in ordered)
    return MapSchedule(segment, classes, parameters)


def _vectorize(group: IterationClass, parameters: MapParameters) -> VectorClass:
    lanes = _lanes(group, parameters.lanes)
    streams = _streams(group, parameters.streamed)
    if lanes == 1:
        return VectorClass(group, None, streams)
    innermost = group.axes[-1]
    outer, inner = split(innermost, lanes)
    lane = parallelize(inner, ParallelType.VECTORIZE)
    value = combine(atom(outer), atom(lane), lanes)
    nests = tuple(replace_axis(n, innermost, (outer, lane), value) for n in group.nests)
    return VectorClass(IterationClass(group.segment, nests), lane, streams)


def _streams(group: IterationClass, streamed: int) -> bool:
    """True where nobody will find the stores in the cache, and each nest writes whole lines: pieces
    of one store share lines, which the cache has to put together."""
    layouts = group.segment.layouts
    return all(
        nest.is_whole
        and layouts[nest.store.target].numel * nest.store.target.dtype.itemsize >= streamed
        for nest in group.nests
    )


def _lanes(group: IterationClass, max_lanes: int) -> int:
    """The widest power of two that divides the innermost axis and that the accesses can use."""
    if not group.axes:
        return 1
    innermost = group.axes[-1]
    accesses = _accesses(group)
    itemsizes = [tv.dtype.itemsize for tv, _ in accesses]
    lanes = min(max_lanes, max(MAX_ALIGNMENT // min(itemsizes), 1))
    if sum(n.instances for n in group.nests) > FEW_STORES:
        lanes = min(lanes, max_lanes // 2)
    while lanes > 1 and innermost.size % lanes:
        lanes //= 2
    for tv, form in accesses:
        weight = abs(_weight(form, innermost))
        while lanes > 1 and not _fits(weight, lanes, tv):
            lanes //= 2
    return lanes


def _fits(weight: int, lanes: int, tv: TensorView) -> bool:
    """Lanes that are strided by a short unrolled axis share one run of registers."""
    run = weight * lanes * tv.dtype.itemsize
    return weight <= 1 or run <= MAX_RUN_BYTES or weight * tv.dtype.itemsize > 4 * MAX_RUN_BYTES


def _weight(form: Form, axis: IterDomain) -> int:
    return next((w for w, d in form.terms if d.base is axis and d.stride == 1), 0)


def _accesses(group: IterationClass) -> list[tuple[TensorView, Form]]:
    """Every load and store with its element offset."""
    found = []
    for nest, needs in zip(group.nests, group.needs, strict=True):
        layouts = group.segment.layouts
        found += [(tv, offset_of(layouts[tv], index)) for tv, index in needs.leaves]
        found.append((nest.store.target, offset_of(layouts[nest.store.target], nest.index)))
    return found


def reject(segment: Segment) -> str | None:
    """Why T1 cannot run this segment, or None: an in-place target must be read only by the thread
    and at the element that writes it."""
    targets = {s.target for s in segment.stores if s.is_in_place}
    if not targets:
        return None
    planned = schedule(segment, MapParameters())
    for target in targets & segment.leaves:
        if (reason := _hazard(planned, target)) is not None:
            return reason
    return None


def _hazard(planned: MapSchedule, target: TensorView) -> str | None:
    """A read of `target` by a thread other than the one that writes that element."""
    for vector_class in planned.classes:
        group = vector_class.group
        layouts = group.segment.layouts
        written = {
            offset_of(layouts[n.store.target], n.index)
            for n in group.nests
            if n.store.target is target
        }
        for nest in group.nests:
            needs = demand([(nest.store.value, nest.index)], group.segment.leaves)
            for tv, index in needs.leaves:
                if tv is target and offset_of(layouts[tv], index) not in written:
                    return "an in-place target is read at another element than it is written"
    return None
