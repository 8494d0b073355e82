"""Loop nests: the axes over which one store runs, refined until index maps are plain sums.

    T2[i32, i128] = cat(-T0[.., 64:], T0[.., :64])

    axes i0{32}, i1{128}        the cat's window cuts i1 at 64
    axes i0{32}, i2{2}, i3{64}  i2 unrolled: for i2 = 0 read 64 + i3, for i2 = 1 read i3

A digit `(i / s) % e` of an axis splits the axis there, so that afterwards every digit is an axis. A
window that cuts an axis into few equal pieces splits it and unrolls the pieces in one thread, where
common loads are shared; unequal pieces become nests of their own. Short rows stay whole, so that
threads side by side store all of a line:

    T5[i0{4096}, i1{128}] = cat(T4{32}, T1[.., 32:])      i0{4096}, i2{4}, i3{32}; T4 where i2 < 1
    T1[i0{128}, i1{14}] + T1[i0, max(i1 - 1, 0)]          i0{128}, i1{14}; T1[i0, i1] where i1 < 1

What still depends on an axis is guarded at run time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, prod

from thunder_fuser.analysis.access import Demand, Index, Side, demand, side
from thunder_fuser.analysis.digits import (
    Form,
    Loaded,
    Opaque,
    Term,
    atom,
    combine,
    shift,
    substitute,
)
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.analysis.known import along, axis_of
from thunder_fuser.analysis.layout import offset_of
from thunder_fuser.ir.domain import IterDomain, axis, split
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.segment.segment import Segment, Store

MAX_PIECES = 16  # equal pieces of one axis that one thread may own
MAX_INSTANCES = 64  # unrolled copies of one store in one thread
MAX_BOXES = 16  # unequal pieces of one store
SHORT = 512  # bytes of a row that is not cut into unequal pieces
VECTOR = 16  # bytes of a piece of it, at least
NEAR = 4  # places between neighbours
MIN_BORDERED = 8  # elements of an axis of which those at the ends are left out


@dataclass(frozen=True, eq=False)
class Nest:
    """One store over a box of its index space. `index` is the stored value's logical index in terms
    of `axes`; those in `unrolled` are copies inside one thread, and by the index of those in
    `selecting` a thread selects what it stores. One that `is_flat` has one axis, of all elements in
    the order in which they lie. Copies of one that `is_beside` are rows that read each other."""

    store: Store
    axes: tuple[IterDomain, ...]
    unrolled: tuple[IterDomain, ...]
    index: Index
    selecting: frozenset[IterDomain] = frozenset()
    is_flat: bool = False
    is_beside: bool = False

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
    found = _at_windows(segment, nest, needs, others)
    if found is None and nest.unrolled and nest.selecting:
        # Of one copy more is known than of all.
        found = _at_windows(segment, nest, _needs_of_copies(segment, nest), others)
    return found or (nest,)


def _at_windows(
    segment: Segment, nest: Nest, needs: Demand, others: int
) -> tuple[Nest, ...] | None:
    """The nest, split or cut where windows change that are not left as they are; consumers' are met
    before those of what they select."""
    for element in reversed(needs.elements.values()):
        windows = [w for source in element.sources for w in source.windows]
        for target, breaks in _breaks(windows, nest).items():
            found = _at_breaks(segment, nest, target, breaks, others)
            if found is not None:
                return found
    return None


def _at_breaks(
    segment: Segment, nest: Nest, target: IterDomain, breaks: _Breaks, others: int
) -> tuple[Nest, ...] | None:
    if breaks.are_exact and target in nest.selecting:
        return None
    points = sorted(breaks.points)
    granule = gcd(target.size, *points)
    pieces = target.size // granule
    fits = pieces <= MAX_PIECES and nest.instances * pieces <= MAX_INSTANCES
    if fits and _is_even(target.size, points):
        return (_in_pieces(nest, target, granule),)
    apart = cut_axis(nest, target, _best_cut(target.size, points))
    if breaks.are_exact:
        whole = _bordered(segment, nest, target, points, apart)
        whole = whole or _whole(segment, nest, target, granule, apart)
        if whole is not None:
            return (whole,)
    if others + 1 < MAX_BOXES:
        return apart
    return (_in_pieces(nest, target, granule),) if fits else None


def _is_even(size: int, points: Sequence[int]) -> bool:
    """True where an axis is cut into equal pieces."""
    return gcd(size, *points) * (len(points) + 1) == size


def _best_cut(size: int, points: Sequence[int]) -> int:
    """The point that leaves most sides cut into equal pieces, the last one of several."""

    def sides(point: int) -> int:
        below, above = (p for p in points if p < point), (p - point for p in points if p > point)
        return _is_even(point, tuple(below)) + _is_even(size - point, tuple(above))

    return max(reversed(points), key=sides)


def _in_pieces(nest: Nest, target: IterDomain, granule: int) -> Nest:
    """The nest with all equal pieces of an axis in one thread."""
    refined, outer = split_axis(nest, target, granule)
    return replace(refined, unrolled=(*refined.unrolled, outer))


def _whole(
    segment: Segment, nest: Nest, target: IterDomain, granule: int, apart: Sequence[Nest]
) -> Nest | None:
    """The nest uncut along an axis along which rows of a few vectors are stored, of pieces that are
    whole ones; or along whole rows of the store whose narrower pieces, parts of sectors, all read
    something. None where a thread would load more than any of those that are `apart`."""
    stored = nest.store.target
    terms = offset_of(segment.layouts[stored], nest.index).terms
    step = next((abs(w) for w, d in terms if d.base is target and d.is_whole), 0)
    width = step * stored.dtype.itemsize
    if target.size * width > SHORT:
        return None
    whole, outer = split_axis(nest, target, granule) if granule > 1 else (nest, target)
    loads = [_loads(segment, piece) for piece in apart]
    is_row = target.size * step == stored.shape[-1] and min(loads) > 0
    if (granule * width < VECTOR and not is_row) or _loads(segment, whole) > max(loads):
        return None
    return replace(whole, selecting=whole.selecting | {outer})


def _bordered(
    segment: Segment, nest: Nest, target: IterDomain, points: Sequence[int], apart: Sequence[Nest]
) -> Nest | None:
    """The nest uncut along an axis along which elements read their neighbours, and of which only
    those at the ends have none. None where a thread would load more than one of those `apart`."""
    near = neighbours_along(offsets_read(segment, _needs_of_copies(segment, nest)), target)
    ends = max(min(point, target.size - point) for point in points)
    is_at_ends = bool(near) and ends <= max(near.values()) and target.size >= MIN_BORDERED
    if not is_at_ends or _loads(segment, nest) > max(_loads(segment, piece) for piece in apart):
        return None
    return replace(nest, selecting=nest.selecting | {target})


def offsets_read(segment: Segment, needs: Demand) -> list[tuple[TensorView, Form]]:
    """Every element that is loaded, by its offset."""
    return [(tv, offset_of(segment.layouts[tv], index)) for tv, index in needs.leaves]


def neighbours_along(
    loads: Iterable[tuple[TensorView, Form]], target: IterDomain
) -> dict[TensorView, int]:
    """The tensors of which an element reads several along an axis, and how far from each other."""
    found: dict[tuple[TensorView, tuple[Term, ...]], set[int]] = {}
    for tv, form in loads:
        found.setdefault((tv, form.terms), set()).add(form.constant)
    reach = dict[TensorView, int]()
    for (tv, terms), constants in found.items():
        step = next((abs(w) for w, digit in terms if digit.base is target and digit.is_whole), 0)
        for places in range(1, 1 + NEAR) if step else ():
            if any(c + places * step in constants for c in constants):
                reach[tv] = max(reach.get(tv, 0), places)
    return reach


def _loads(segment: Segment, nest: Nest) -> int:
    """Elements that a thread loads with one lane."""
    return len(set(offsets_read(segment, _needs_of_copies(segment, nest))))


def _needs_of_copies(segment: Segment, nest: Nest) -> Demand:
    return demand([(nest.store.value, index) for index in instances(nest)], segment.leaves)


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
    return replace(nest, axes=put(nest.axes), unrolled=put(nest.unrolled), index=index)


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


@dataclass
class _Breaks:
    """The points of an axis where windows change, exact where no other axis has a say."""

    points: set[int]
    are_exact: bool = True


def _breaks(windows: Iterable[Window], nest: Nest) -> dict[IterDomain, _Breaks]:
    """The axes on which the windows' values depend most, and where they change."""
    found: dict[IterDomain, _Breaks] = {}
    for window in windows:
        for form in instances_of(window.form, nest.unrolled):
            copy = Window(form, window.extent)
            if side(copy) is not Side.DEPENDS:
                continue
            ends = along(copy)
            if ends is None or (target := axis_of(ends[0])) is None:
                continue
            _, sometimes, always = ends
            points = {p for low, high in (sometimes, always) for p in (low, high + 1)}
            if inner := {p for p in points if 0 < p < target.size}:
                breaks = found.setdefault(target, _Breaks(set()))
                breaks.points |= inner
                breaks.are_exact &= sometimes == always
    return found


def instances_of(form: Form, unrolled: Sequence[IterDomain]) -> Iterator[Form]:
    """`form` at every value of the unrolled axes it depends on."""
    axes = [a for a in unrolled if a in form.bases]
    for point in product(*(range(a.size) for a in axes)):
        yield substitute(form, {a: Form(k) for a, k in zip(axes, point, strict=True)})
