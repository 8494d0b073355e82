"""Loop nests: the axes over which one store runs, refined until index maps are plain sums.

    T2[i32, i128] = cat(-T0[.., 64:], T0[.., :64])

    axes i0{32}, i1{128}        the cat's window cuts i1 at 64
    axes i0{32}, i2{2}, i3{64}  i2 unrolled: for i2 = 0 read 64 + i3, for i2 = 1 read i3

A digit `(i / s) % e` of an axis splits the axis there, so that afterwards every digit is an axis. A
window that cuts an axis into few equal pieces splits it and unrolls the pieces in one thread, where
common loads are shared; unequal pieces become nests of their own. What still depends on an axis is
guarded at run time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, prod

from thunder_fuser.analysis.access import Demand, Index, Side, demand, side
from thunder_fuser.analysis.digits import Form, Loaded, Opaque, atom, combine, shift, substitute
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.analysis.layout import offset_of
from thunder_fuser.ir.domain import IterDomain, axis, split
from thunder_fuser.segment.segment import Segment, Store

MAX_PIECES = 16  # equal pieces of one axis that one thread may own
MAX_INSTANCES = 64  # unrolled copies of one store in one thread
MAX_BOXES = 16  # unequal pieces of one store


@dataclass(frozen=True, eq=False)
class Nest:
    """One store over a box of its index space. `index` is the stored value's logical index in terms
    of `axes`; those in `unrolled` are copies inside one thread."""

    store: Store
    axes: tuple[IterDomain, ...]
    unrolled: tuple[IterDomain, ...]
    index: Index

    @property
    def is_whole(self) -> bool:
        """True where the nest runs over all of its store."""
        return self.instances * prod(a.size for a in self.parallel) == prod(self.store.value.shape)

    @property
    def parallel(self) -> tuple[IterDomain, ...]:
        return tuple(a for a in self.axes if a not in self.unrolled)

    @property
    def instances(self) -> int:
        return prod(a.size for a in self.unrolled)


def instances(nest: Nest) -> Iterator[Index]:
    """The stored value's index at every value of the unrolled axes."""
    for point in product(*(range(a.size) for a in nest.unrolled)):
        values = {a: Form(k) for a, k in zip(nest.unrolled, point, strict=True)}
        yield tuple(substitute(f, values) for f in nest.index)


def refine(segment: Segment, store: Store) -> tuple[Nest, ...]:
    """The nests that together run over the whole of `store`."""
    axes = tuple(axis(a.size) for a in store.value.logical)
    start = Nest(store, tuple(a for a in axes if a.size != 1), (), tuple(map(atom, axes)))
    if any(a.size == 0 for a in axes):
        return ()
    open_nests, done = [start], list[Nest]()
    while open_nests:
        nest = open_nests.pop()
        pieces = _refine_once(segment, nest, len(open_nests) + len(done))
        if pieces == (nest,):
            done.append(nest)
        else:
            open_nests.extend(reversed(pieces))
    return tuple(done)


def _refine_once(segment: Segment, nest: Nest, others: int) -> tuple[Nest, ...]:
    needs = demand([(nest.store.value, nest.index)], segment.leaves)
    factor = _digit_split(offsets(segment, nest, needs), needs, nest)
    if factor is not None:
        return (split_axis(nest, *factor)[0],)
    for window in needs.windows():
        found = _breaks(window, nest)
        if found is None:
            continue
        target, points = found
        granule = gcd(target.size, *points)
        pieces = target.size // granule
        is_even = pieces == len(points) + 1
        fits = pieces <= MAX_PIECES and nest.instances * pieces <= MAX_INSTANCES
        has_room = others + len(points) < MAX_BOXES
        if fits and (is_even or not has_room):
            refined, outer = split_axis(nest, target, granule)
            return (replace(refined, unrolled=(*refined.unrolled, outer)),)
        if has_room:
            return cut_axis(nest, target, points[-1])
    return (nest,)


def offsets(segment: Segment, nest: Nest, needs: Demand) -> list[Form]:
    """The element offset of every load, then of the store."""
    loads = [offset_of(segment.layouts[tv], index) for tv, index in needs.leaves]
    return [*loads, offset_of(segment.layouts[nest.store.target], nest.index)]


def split_axis(nest: Nest, target: IterDomain, factor: int) -> tuple[Nest, IterDomain]:
    """`target` replaced by the axes of an inner split, and the outer one of them."""
    outer, inner = split(target, factor)
    value = combine(atom(outer), atom(inner), factor)
    return replace_axis(nest, target, (outer, inner), value), outer


def replace_axis(nest: Nest, old: IterDomain, new: tuple[IterDomain, ...], value: Form) -> Nest:
    """`old`, whose index is `value`, replaced by the axes `new`; axes of extent 1 vanish."""

    def put(axes: tuple[IterDomain, ...]) -> tuple[IterDomain, ...]:
        return tuple(b for a in axes for b in (new if a is old else (a,)) if b.size != 1)

    index = tuple(substitute(f, {old: value}) for f in nest.index)
    return Nest(nest.store, put(nest.axes), put(nest.unrolled), index)


def cut_axis(nest: Nest, target: IterDomain, point: int) -> tuple[Nest, Nest]:
    """The nests below and from `point` on."""
    low, high = axis(point), axis(target.size - point)
    return (
        replace_axis(nest, target, (low,), atom(low)),
        replace_axis(nest, target, (high,), shift(atom(high), point)),
    )


def _digit_split(
    offset_forms: Iterable[Form], needs: Demand, nest: Nest
) -> tuple[IterDomain, int] | None:
    """An axis and the factor at which some index map takes it apart."""
    forms = [*offset_forms, *(w.form for w in needs.windows())]
    for form in forms:
        for base, factor in _digit_points(form):
            if base in nest.axes and 1 < factor < base.size and base.size % factor == 0:
                return base, factor
    return None


def _digit_points(form: Form) -> Iterator[tuple[IterDomain, int]]:
    for _, digit in form.terms:
        match digit.base:
            case Opaque(inner):
                yield from _digit_points(inner)
            case Loaded():
                pass  # what it depends on is the offset of a load of its own
            case axis:
                yield axis, digit.stride
                yield axis, digit.stride * digit.extent


def _breaks(window: Window, nest: Nest) -> tuple[IterDomain, list[int]] | None:
    """The axis on which the window's value depends most, and the points where it changes."""
    for form in instances_of(window.form, nest.unrolled):
        if side(Window(form, window.extent)) is not Side.DEPENDS:
            continue
        whole = [(w, d) for w, d in form.terms if d.is_whole and d.base in nest.axes]
        if not whole:
            continue
        weight, digit = max(whole, key=lambda t: abs(t[0]))
        target = digit.base
        assert isinstance(target, IterDomain)
        late = 1 if weight < 0 else 0  # walking backward, the index at a bound is still before it
        points = {
            point
            for bound in (-form.constant, window.extent - form.constant)
            for point in (bound // weight + late, -(-bound // weight) + late)
            if 0 < point < target.size
        }
        if points:
            return target, sorted(points)
    return None


def instances_of(form: Form, unrolled: Sequence[IterDomain]) -> Iterator[Form]:
    """`form` at every value of the unrolled axes it depends on."""
    axes = [a for a in unrolled if a in form.bases]
    for point in product(*(range(a.size) for a in axes)):
        yield substitute(form, {a: Form(k) for a, k in zip(axes, point, strict=True)})
