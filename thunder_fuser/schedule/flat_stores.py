"""Stores that pads, cats and slices cut into narrow boxes, as one axis over all that they write.

    T1[i0{32}, i1{30}] = pad(T0[30, 28])      eight boxes, of which rows of 28 begin anywhere

    axis f{960}, where i0 = f / 30 and i1 = f % 30, reads T0[f / 30 - 1, f % 30 - 1] where that is

The target lies dense, so every store is a whole aligned vector. Its lanes find their places and
read elements one by one, each under the windows that boxes were cut for. That pays where few
elements are read for one that is stored, and where boxes store less than 8 bytes at a time: these
cost most, as sectors are then written in parts.

So are rows of odd length that are stored several times. Copies that lie side by side stay in one
thread:

    T1[i0{74}, i1{82}] = T0[i0 / 2, i1 / 2]        axis f{3034}, of which two elements are stored
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from thunder_fuser.analysis.access import Index, demand
from thunder_fuser.analysis.digits import atom
from thunder_fuser.analysis.exclusive import one_at_most
from thunder_fuser.analysis.known import beside, tests_of
from thunder_fuser.analysis.layout import WIDE_ENOUGH, offset_of
from thunder_fuser.ir.domain import axis
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.classes import IterationClass
from thunder_fuser.schedule.nest import Nest, instances, split_axis
from thunder_fuser.schedule.order import merge_axes, merge_pair
from thunder_fuser.schedule.parameters import MapParameters
from thunder_fuser.schedule.runs import weight
from thunder_fuser.schedule.slabs import turned
from thunder_fuser.schedule.vectorize import (
    elements_at_once,
    lanes_of,
)
from thunder_fuser.segment.segment import Segment, Store

STORE = 4  # loads that cost as much as a store: neighbours' loads meet in the L1 cache
MOST_LOADS = 2  # elements that are read for one that is stored, without those in whole vectors
MOST_PLACES = 4  # loads for these, each of one of several elements that exclude each other
FEW_NARROW = 32  # one in so many elements may be stored in narrow accesses
NEAR = 2  # elements from one that is read to the next
GAIN = 1.25  # times the accesses, below which boxes stay


def flat_stores(
    groups: Sequence[IterationClass], parameters: MapParameters
) -> tuple[IterationClass, ...]:
    """`groups` with one class in place of all that store a target in narrow accesses, where these
    store nothing else."""
    found: dict[IterationClass, IterationClass] = {}
    for boxes in _alone(groups):
        flat = _flat(boxes, parameters)
        if flat is not None:
            found |= dict.fromkeys(boxes, flat)
    return tuple(dict.fromkeys(found.get(group, group) for group in groups))


def _alone(groups: Sequence[IterationClass]) -> Iterable[list[IterationClass]]:
    """The classes of each target that no class stores beside another one."""
    boxes: dict[TensorView, list[IterationClass]] = {}
    shared: set[TensorView] = set()
    for group in groups:
        targets = {nest.store.target for nest in group.nests}
        shared |= targets if len(targets) > 1 else set()
        for target in targets:
            boxes.setdefault(target, []).append(group)
    return [found for target, found in boxes.items() if target not in shared]


def _flat(boxes: Sequence[IterationClass], parameters: MapParameters) -> IterationClass | None:
    """The class of one axis that does what `boxes` do with fewer accesses, if there is one."""
    segment, store = boxes[0].segment, boxes[0].nests[0].store
    layout = segment.layouts[store.target]
    is_large = layout.numel >= parameters.busy  # others are bound by latency
    if store.is_in_place or not (is_large and layout.is_dense):
        return None
    apart = [_traffic(group, parameters) for group in boxes]
    if FEW_NARROW * sum(t.narrow for t in apart) < layout.numel:
        return None
    if any(_has_an_order_of_its_own(group, parameters) for group in boxes):
        return None
    made = _whole(segment, store, _copies_beside(boxes))
    together = _cost_of_flat(made, sum(t.loads for t in apart) / layout.numel, parameters)
    if together is None or GAIN * together * layout.numel > sum(t.cost for t in apart):
        return None
    return made


def _has_an_order_of_its_own(group: IterationClass, parameters: MapParameters) -> bool:
    """True for a class that is turned, reads far apart what it stores side by side, or has values
    in one thread that share loads."""
    if turned(group, parameters.lanes, parameters.busy) is not None:
        return True
    alone = sum(
        len(demand([(nest.store.value, index)], group.segment.leaves).leaves)
        for nest in group.nests
        for index in instances(replace(nest, unrolled=group.told_apart(nest)))
    )
    if alone > len(group.loads) or not group.axes:
        return alone > len(group.loads)
    innermost, layouts = group.axes[-1], group.segment.layouts
    stored = (weight(offset_of(layouts[n.store.target], n.index), innermost) for n in group.nests)
    is_beside = any(step == 1 for step in stored)
    return is_beside and any(abs(weight(form, innermost)) > NEAR for _, form in group.loads)


def _copies_beside(boxes: Sequence[IterationClass]) -> int:
    """How many copies of one value all nests store side by side."""
    layouts, found = boxes[0].segment.layouts, set[int]()
    for group in boxes:
        for nest in group.nests:
            offset = offset_of(layouts[nest.store.target], nest.index)
            copies = (a for a in nest.unrolled if a not in group.told_apart(nest))
            found.add(next((a.size for a in copies if weight(offset, a) == 1), 1))
    return found.pop() if len(found) == 1 else 1


@dataclass(frozen=True)
class _Traffic:
    """What classes move: elements loaded if copies that do not lie side by side are no longer of
    one thread, elements stored in narrow accesses, and what all accesses cost, in loads."""

    loads: float
    narrow: float
    cost: float


def _traffic(group: IterationClass, parameters: MapParameters) -> _Traffic:
    apart = sum(n.instances for n in group.nests) / (group.values * _copies_beside([group]))
    lanes, layouts = lanes_of(group, parameters), group.segment.layouts
    points = prod(a.size for a in group.axes)
    rest = group.axes[-1].size % lanes / group.axes[-1].size if group.axes else 0.0
    loads = narrow = cost = 0.0
    for (tv, form), share in group.loads.items():
        loads += points * share * apart
        cost += points * share / elements_at_once(group, tv, form, lanes)
    for nest in group.nests:
        target, stored = nest.store.target, points * nest.instances
        form = offset_of(layouts[target], nest.index)
        width = elements_at_once(group, target, form, lanes)
        is_narrow = width * target.dtype.itemsize < WIDE_ENOUGH
        narrow += stored if is_narrow else stored * rest
        cost += STORE * stored * (rest + (1 - rest) / width)
    return _Traffic(loads, narrow, cost)


def _whole(segment: Segment, store: Store, copies: int) -> IterationClass:
    """The class whose one axis has the elements of a target in the order in which they lie, so many
    of one value in one thread."""
    strides = segment.layouts[store.target].strides
    axes = tuple(axis(a.size) for a in store.value.logical)
    order = sorted(range(len(axes)), key=lambda dim: -strides[dim])
    walked = tuple(axes[dim] for dim in order if axes[dim].size != 1)
    nest = Nest(store, walked, (), tuple(map(atom, axes)))
    if copies > 1:
        nest, _ = split_axis(nest, walked[-1], copies)
        nest = replace(nest, unrolled=nest.axes[-1:])
    whole = merge_axes(IterationClass(segment, (nest,)))
    while len(whole.axes) > 1:
        whole = merge_pair(whole, *whole.axes[-2:])
    return IterationClass(segment, tuple(replace(n, is_flat=True) for n in whole.nests))


def _cost_of_flat(flat: IterationClass, loads: float, parameters: MapParameters) -> float | None:
    """What an element of a flat class costs for which boxes load so many; None where it stores in
    narrow accesses too, or needs too many elements."""
    (nest,), (needs,) = flat.nests, flat.needs
    lanes, layouts, target = lanes_of(flat, parameters), flat.segment.layouts, nest.store.target
    width = elements_at_once(flat, target, offset_of(layouts[target], nest.index), lanes)
    if width * target.dtype.itemsize < WIDE_ENOUGH:
        return None
    whole = [key for key in needs.leaves if _is_vector(flat, *key, lanes)]
    apart = {
        (tv, index): (*tests_of(known), *beside(index, tv.shape, known))
        for (tv, index), known in needs.leaves.items()
        if (tv, index) not in whole
    }
    single = loads - len(whole)
    if single > MOST_LOADS or len(one_at_most(apart)) > MOST_PLACES:
        return None
    return max(single, 0.0) + (len(whole) + STORE) / width


def _is_vector(flat: IterationClass, tv: TensorView, index: Index, lanes: int) -> bool:
    """True for what all lanes read, in one access."""
    offset = offset_of(flat.segment.layouts[tv], index)
    is_apart = any(flat.axes[-1] in window.form.bases for window in beside(index, tv.shape))
    return not is_apart and elements_at_once(flat, tv, offset, lanes) >= lanes
