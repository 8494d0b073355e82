"""Iteration classes: nests that one thread can run together.

    q[b, g, i, t, d]      reads x at 768 g + 128 i + d           parallel b, g, t, d; unrolled i
    k[b, g, r, t, d]      reads x at 768 g + 512 + d             parallel b, g, t, d; stored r times

Two nests share a class where their parallel axes pair up: equal extents, and equal strides in every
tensor that both read. An axis left over on one side is unrolled when it is short. Within a class
loads are shared, so `x`, `cos` and `sin` are read once for q and k.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TypeAlias

from thunder_fuser.analysis.access import Demand, demand
from thunder_fuser.analysis.digits import Base, Form, atom, substitute
from thunder_fuser.analysis.known import share_of
from thunder_fuser.analysis.layout import MAX_ALIGNMENT, offset_of
from thunder_fuser.ir.domain import IterDomain, like
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Family
from thunder_fuser.schedule.nest import MAX_INSTANCES, Nest, instances, replace_axis, split_axis
from thunder_fuser.schedule.parameters import FIFTH, MAX_LANES, MAX_LOADED, MapParameters
from thunder_fuser.segment.segment import Segment
from thunder_fuser.target import LINE, SECTOR

MAX_PLACES = 9  # of a pool in one thread: three by three

StridesRead: TypeAlias = dict[TensorView, frozenset[tuple[IterDomain, int]]]


@dataclass(frozen=True, eq=False)
class IterationClass:
    """Nests over the same parallel axes."""

    segment: Segment
    nests: tuple[Nest, ...]

    @property
    def axes(self) -> tuple[IterDomain, ...]:
        """The parallel axes, outermost first."""
        return self.nests[0].parallel

    @cached_property
    def needs(self) -> tuple[Demand, ...]:
        """What each nest needs, its unrolled axes kept symbolic."""
        return tuple(demand([(n.store.value, n.index)], self.segment.leaves) for n in self.nests)

    @cached_property
    def loads(self) -> Mapping[tuple[TensorView, Form], float]:
        """Every element that one point of the parallel axes loads, with its offset, and how large a
        part of the points does."""
        stores = [(n.store.value, index) for n in self.nests for index in instances(n)]
        found: dict[tuple[TensorView, Form], float] = {}
        for (tv, index), known in demand(stores, self.segment.leaves).leaves.items():
            key = tv, offset_of(self.segment.layouts[tv], index)
            found[key] = max(found.get(key, 0.0), share_of(known))
        return found

    @cached_property
    def forms(self) -> tuple[Form, ...]:
        """Every form that code is generated for."""
        layouts = self.segment.layouts
        stores = (offset_of(layouts[n.store.target], n.index) for n in self.nests)
        return tuple(dict.fromkeys((*self.forms_read, *stores)))

    @property
    def values(self) -> int:
        """Values that one point of the parallel axes computes, however often they are stored."""
        return sum(prod(a.size for a in self.told_apart(n)) for n in self.nests)

    def told_apart(self, nest: Nest) -> tuple[IterDomain, ...]:
        """The unrolled axes whose copies are values of their own."""
        read = frozenset[IterDomain]().union(*(form.bases for form in self.forms_read))
        return tuple(a for a in nest.unrolled if a in read)

    @cached_property
    def accesses(self) -> tuple[tuple[TensorView, Form], ...]:
        """Every load and store with its element offset."""
        layouts, found = self.segment.layouts, list[tuple[TensorView, Form]]()
        for nest, needs in zip(self.nests, self.needs, strict=True):
            found += [(tv, offset_of(layouts[tv], index)) for tv, index in needs.leaves]
            found.append((nest.store.target, offset_of(layouts[nest.store.target], nest.index)))
        return tuple(found)

    @cached_property
    def windows(self) -> tuple[Form, ...]:
        """What the windows of its elements test."""
        return tuple(window.form for needs in self.needs for window in needs.windows())

    @cached_property
    def forms_read(self) -> tuple[Form, ...]:
        """What the values depend on: offsets of loads, windows, indices used as values."""
        found: dict[Form, None] = {}
        for needs in self.needs:
            for tv, index in needs.leaves:
                found[offset_of(self.segment.layouts[tv], index)] = None
            for window in needs.windows():
                found[window.form] = None
            for tv, index in needs.elements:
                if tv.definition is not None and tv.definition.op.family in _INDEX_VALUES:
                    found.update(dict.fromkeys(index))
        return tuple(found)

    @cached_property
    def strides_read(self) -> StridesRead:
        """For each tensor the first nest reads, the strides of its axes there."""
        found: dict[TensorView, set[tuple[IterDomain, int]]] = {}
        for tv, index in self.needs[0].leaves:
            form = offset_of(self.segment.layouts[tv], index)
            strides = {(d.base, w) for w, d in form.terms if d.is_whole}
            found.setdefault(tv, set()).update(
                (b, w) for b, w in strides if isinstance(b, IterDomain)
            )
        return {tv: frozenset(strides) for tv, strides in found.items()}


_INDEX_VALUES = (Family.IOTA, Family.RANDOM)


def classify(
    segment: Segment, nests: Sequence[Nest], parameters: MapParameters
) -> tuple[IterationClass, ...]:
    """Group nests greedily, in order, into as few classes as pair up."""
    classes: list[IterationClass] = []
    for nest in nests:
        nest = _unroll_interleaved(segment, _unroll_replicated(segment, nest, parameters))
        nest = _unroll_read_anyway(segment, nest, parameters.busy)
        alone = IterationClass(segment, (nest,))
        for position, existing in enumerate(classes):
            joined = _join(segment, existing, alone, parameters)
            if joined is not None and _is_busy(joined, (existing.nests[0], nest), parameters.busy):
                classes[position] = joined
                break
        else:
            classes.append(alone)
    return tuple(classes)


def _unroll_replicated(segment: Segment, nest: Nest, parameters: MapParameters) -> Nest:
    """An axis that nothing read depends on becomes a loop of stores of one value."""
    alone = IterationClass(segment, (nest,))
    if not alone.needs[0].leaves:
        return nest
    read = frozenset[IterDomain]().union(*(f.bases for f in alone.forms_read))
    for axis in nest.parallel:
        few = axis.size <= parameters.owned and axis.size * nest.instances <= MAX_INSTANCES
        left = _elements(nest) // axis.size
        is_worth_it = left >= parameters.busy and _stays_near(segment, nest, axis, parameters.near)
        is_worth_it = is_worth_it and not _lies_in_crumbs(segment, nest, axis)
        if axis not in read and few and is_worth_it:
            nest = replace(nest, unrolled=(*nest.unrolled, axis))
    return nest


def _unroll_interleaved(segment: Segment, nest: Nest) -> Nest:
    """A short innermost axis, along which pieces are stored that are read far apart, becomes copies
    in one thread, so that it reads vectors of each piece and stores them by turns.

    T1[i0{64}, i1{2}] = T0[i1, i0]       i0 in lanes, i1 unrolled: stores 2 * lane and 2 * lane + 1
    """
    if len(nest.parallel) < 2:
        return nest
    outer, inner = nest.parallel[-2:]
    alone, target = IterationClass(segment, (nest,)), nest.store.target
    stored = _weights(offset_of(segment.layouts[target], nest.index))
    layouts = segment.layouts
    large = [
        (tv, index)
        for tv, index in alone.needs[0].leaves
        if 2 * layouts[tv].numel >= layouts[target].numel
    ]
    wide = max(tv.dtype.itemsize for tv in (target, *(tv for tv, _ in large)))
    is_short = inner.size * wide < MAX_ALIGNMENT <= outer.size
    if not is_short or (stored.get(inner), stored.get(outer)) != (1, inner.size):
        return nest
    read = [_weights(offset_of(layouts[tv], index)) for tv, index in large]
    is_apart = bool(read) and all(w.get(outer) == 1 and w.get(inner, 0) > 1 for w in read)
    fits = inner.size * nest.instances <= MAX_INSTANCES
    return _unroll(nest, [inner]) if is_apart and fits else nest


def _unroll_read_anyway(segment: Segment, nest: Nest, busy: int) -> Nest:
    """Short axes, of which each value needs what all of them load, become copies in one thread, as
    the places of a pool whose largest gets the gradient: it loads and reduces once what they share,
    and axes that are longer have the lanes. Copies that are stored side by side fill one access."""
    bases: dict[TensorView, list[frozenset[Base]]] = {}
    for tv, index in IterationClass(segment, (nest,)).needs[0].leaves:
        bases.setdefault(tv, []).append(offset_of(segment.layouts[tv], index).bases)
    met = {a for b in bases.values() for a in frozenset.union(*b) - frozenset.intersection(*b)}
    short = [a for a in nest.parallel if a in met and a.size <= MAX_PLACES]
    made, target = _unroll(nest, short), nest.store.target
    stored = _weights(offset_of(segment.layouts[target], nest.index))
    beside = prod(a.size for a in short if stored.get(a) == 1) * target.dtype.itemsize
    fits = beside <= MAX_ALIGNMENT and made.instances <= MAX_PLACES * nest.instances
    if made is nest or not made.parallel or not fits or _elements(made) < busy:
        return nest
    alone, together = (IterationClass(segment, (n,)).loads for n in (nest, made))
    held = sum(tv.dtype.itemsize for tv, _ in together) * MAX_LANES // 2
    return made if len(together) <= 2 * len(alone) and held <= MAX_LOADED else nest


def in_one_thread(
    group: IterationClass, axis: IterDomain, outer: IterDomain, inner: IterDomain, value: Form
) -> IterationClass:
    """`group` with all of `inner` in one thread, where `axis` is `value`, of it and of `outer`."""
    nests = (replace_axis(n, axis, (outer, inner), value) for n in group.nests)
    made = tuple(replace(n, unrolled=(*n.unrolled, inner)) for n in nests)
    return IterationClass(group.segment, made)


def _weights(form: Form) -> dict[Base, int]:
    return {d.base: w for w, d in form.terms if d.is_whole}


def _is_busy(joined: IterationClass, apart: Sequence[Nest], busy: int) -> bool:
    """False where sharing loads would leave too few threads to fill the machine."""
    together = _elements(joined.nests[0])
    return together >= busy or together == max(map(_elements, apart))


def _elements(nest: Nest) -> int:
    """Points of the parallel axes."""
    return prod(a.size for a in nest.parallel)


def _join(
    segment: Segment, existing: IterationClass, alone: IterationClass, parameters: MapParameters
) -> IterationClass | None:
    """`existing` with the nest of the class `alone` in it; None where axes too long for one thread
    are left over."""
    group, joined = _align(existing, alone, parameters.owned)
    here, there = group.nests[0], joined.nests[0]
    pairs = _pair(here.parallel, there.parallel, group.strides_read, joined.strides_read)
    lonely_here = [a for a in here.parallel if a not in pairs.values()]
    lonely_there = [a for a in there.parallel if a not in pairs]
    stored = [(n, a) for n in group.nests for a in lonely_here]
    stored += [(there, a) for a in lonely_there]
    if not pairs or any(a.size > parameters.owned for _, a in stored):
        return None
    members = [_unroll(n, lonely_here) for n in group.nests]
    members.append(_rename(_unroll(there, lonely_there), pairs))
    if any(n.instances > MAX_INSTANCES for n in members):
        return None
    found = IterationClass(segment, tuple(members))
    are_near = all(_stays_near(segment, n, a, parameters.near) for n, a in stored)
    return found if are_near or _saves_loads(found) else None


def _saves_loads(found: IterationClass) -> bool:
    """True where threads load so much for several nests that they would load again for each, as
    those that sum a few rows do with stores of these rows: what differs from lane to lane."""
    innermost = found.axes[-1]

    def loaded(group: IterationClass) -> int:
        return sum(tv.dtype.itemsize for tv, form in group.loads if innermost in form.bases)

    apart = sum(loaded(IterationClass(found.segment, (nest,))) for nest in found.nests)
    stored = sum(n.instances * n.store.target.dtype.itemsize for n in found.nests)
    return 100 * (apart - loaded(found)) >= FIFTH * (apart + stored)


def _align(
    group: IterationClass, joined: IterationClass, owned: int
) -> tuple[IterationClass, IterationClass]:
    """Split an axis where the other side has a shorter axis of the same strides.

    here d2{2} unrolled, d1{64}       there d{128}      =>      there d3{2} unrolled, d4{64}
    """
    while True:
        found = _longer(group, joined, owned) or _longer(joined, group, owned)
        if found is None:
            return group, joined
        side, axis, factor = found
        nests = []
        for nest in side.nests:
            refined, outer = split_axis(nest, axis, factor)
            nests.append(_unroll(refined, [outer]))
        replaced = IterationClass(side.segment, tuple(nests))
        group, joined = (replaced, joined) if side is group else (group, replaced)


def _longer(
    group: IterationClass, other: IterationClass, owned: int
) -> tuple[IterationClass, IterDomain, int] | None:
    """An unpaired axis of `group` that is a short multiple of an unpaired one of `other`."""
    if len(group.nests) > 1:
        return None
    read, read_other = group.strides_read, other.strides_read
    pairs = _pair(group.axes, other.axes, read, read_other)
    common = [tv for tv in read if tv in read_other]
    for axis in group.axes:
        for shorter in other.axes:
            if axis in pairs.values() or shorter in pairs or axis.size <= owned:
                continue
            pieces, rest = divmod(axis.size, shorter.size)
            if common and not rest and 1 < pieces <= owned:
                along = [(_strides_along(read[tv], axis), tv) for tv in common]
                other_along = [_strides_along(read_other[tv], shorter) for tv in common]
                keeps_lines = all(s != [1] or _fills_line(shorter, tv) for s, tv in along)
                if [s for s, _ in along] == other_along and keeps_lines:
                    return group, axis, shorter.size
    return None


def _fills_line(axis: IterDomain, tv: TensorView) -> bool:
    """True where threads side by side along `axis` touch whole cache lines between them."""
    return axis.size * tv.dtype.itemsize >= LINE


def _stays_near(segment: Segment, nest: Nest, axis: IterDomain, near: int) -> bool:
    """True where values of `axis` that one thread owns are stored close together."""
    return all(step <= near for step in _steps(segment, nest, axis))


def _lies_in_crumbs(segment: Segment, nest: Nest, axis: IterDomain) -> bool:
    """True where values of `axis`, in a number that no access has, are stored so close together
    that what threads store side by side fills no sector between them: the places of 7 x 7 that have
    the gradient of their mean took 884 us element by element, for 134 MB."""
    are_near = any(step < SECTOR for step in _steps(segment, nest, axis))
    return MAX_LANES % axis.size > 0 and are_near


def _steps(segment: Segment, nest: Nest, axis: IterDomain) -> list[int]:
    """Bytes that values of `axis` are stored apart."""
    target = nest.store.target
    offset = offset_of(segment.layouts[target], nest.index)
    return [abs(w) * target.dtype.itemsize for w, d in offset.terms if d.base is axis]


def _unroll(nest: Nest, axes: Sequence[IterDomain]) -> Nest:
    return replace(nest, unrolled=(*nest.unrolled, *axes)) if axes else nest


def _rename(nest: Nest, pairs: Mapping[IterDomain, IterDomain]) -> Nest:
    """The nest over axes of another. One of its own that is among these already, as both are parts
    of one store, is a new one."""
    own = set(nest.axes).intersection(pairs.values()).difference(pairs)
    names = {**pairs, **{a: like(a) for a in own}}
    values = {old: atom(new) for old, new in names.items()}
    return replace(
        nest,
        axes=tuple(names.get(a, a) for a in nest.axes),
        unrolled=tuple(names.get(a, a) for a in nest.unrolled),
        index=tuple(substitute(f, values) for f in nest.index),
    )


def _pair(
    here: Sequence[IterDomain],
    there: Sequence[IterDomain],
    read_here: StridesRead,
    read_there: StridesRead,
) -> dict[IterDomain, IterDomain]:
    """Map axes of `there` to axes of `here` with equal extent and strides in all common tensors."""
    common = [tv for tv in read_here if tv in read_there]
    if not common:
        return {}
    pairs: dict[IterDomain, IterDomain] = {}
    for axis in there:
        wanted = [_strides_along(read_there[tv], axis) for tv in common]
        for other in here:
            if other.size != axis.size or other in pairs.values():
                continue
            if [_strides_along(read_here[tv], other) for tv in common] == wanted:
                pairs[axis] = other
                break
    return pairs


def _strides_along(strides: frozenset[tuple[IterDomain, int]], axis: IterDomain) -> list[int]:
    return sorted(w for a, w in strides if a is axis)
