"""The innermost axis of a class as vectors: a whole number of them, and what is left over.

axis i{4097}      =>      i1{1024}, lane{4} and, for the last element, a class of its own

So kernels for axes of some lengths have another text than those for others. Where they are to share
one, there is always something left over.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from math import gcd, prod

from thunder_fuser.analysis.digits import Form, Loaded, atom, combine, loads_in, shift
from thunder_fuser.analysis.known import beside
from thunder_fuser.analysis.layout import MAX_ALIGNMENT, WIDE_ENOUGH, Layout, offset_of
from thunder_fuser.ir.domain import IterDomain, ParallelType, axis, parallelize, split
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.classes import IterationClass, in_one_thread
from thunder_fuser.schedule.nest import MAX_INSTANCES, replace_axis
from thunder_fuser.schedule.parameters import MapParameters
from thunder_fuser.schedule.runs import large_accesses, weight
from thunder_fuser.schedule.slabs import turned
from thunder_fuser.schedule.tiles import Square, Tile
from thunder_fuser.schedule.vector_axes import ShiftedAxes
from thunder_fuser.target import SECTOR

MAX_RUN_BYTES = 64  # registers that one load may fill
FEW_VALUES = 1  # of one thread; with more, half as many lanes keep the same bytes in flight
MAX_SPLIT = 4  # accesses that one vector may take where its address is not aligned
MIN_VECTORS = 4  # an axis with fewer whole vectors is not worth a remainder class
LEAST_APART = 2 * SECTOR  # bytes of what lanes that lie apart store side by side
LEAST_STORED = 4  # elements that are read for one whose store decides of lanes
COPIES = 4  # rows of one thread, where a row is too short for lanes
FEW_NEIGHBOURS = 8  # rows of one thread that lie side by side
FEW_ROWS = 16  # one in so many may be left of those
FEW_LEFT = 4  # vectors for each element that is left over, of which few are worth threads


@dataclass(frozen=True, eq=False)
class VectorClass:
    """An iteration class whose innermost axis is cut into lanes; None where a thread has one. With
    a tile its two innermost axes are walked in squares. `streams` is None where no store may bypass
    the cache, however large it is. Lanes that are `apart` have neighbours in other threads. Those
    of a `row` are aligned where it is stored, and may lie beside it."""

    group: IterationClass
    lane: IterDomain | None
    streams: bool | None
    tile: Tile | None = None
    is_apart: bool = False
    row: ShiftedAxes | None = None

    @property
    def lanes(self) -> int:
        return 1 if self.lane is None else self.lane.size

    @property
    def axes(self) -> tuple[IterDomain, ...]:
        return tuple(a for a in self.group.axes if a is not self.lane)

    @property
    def threads(self) -> int:
        return prod(a.size for a in self.axes)

    def is_uniform(self, place: Loaded) -> bool:
        """True for a loaded index that is the same in all lanes, and in all of a square."""
        inside = () if self.tile is None else (self.tile.down, self.tile.across)
        return place.bases.isdisjoint({self.lane, *inside})


def vectorize(group: IterationClass, parameters: MapParameters) -> tuple[VectorClass, ...]:
    """`group` with its innermost axis cut into lanes, and the remainder where there is one. Where
    accesses are contiguous along two different axes, in squares."""
    streams = _streams(group, parameters.streamed)
    found = turned(group, parameters.lanes, parameters.busy)
    if found is not None:
        return _tiled(found, streams)
    lanes = lanes_of(group, parameters)
    if lanes == 1:
        return _copies_apart(group, streams, parameters.busy)
    single = _bytes_stored_singly(group)
    if single and single // lanes < LEAST_APART and len(group.axes) > 1:
        return _in_rows_apart(group, lanes, streams, parameters.busy)
    innermost = group.axes[-1]
    left = innermost.size % lanes
    is_flat = len(group.axes) == 1  # else it is the outer axes that have many sizes
    if parameters.rests and is_flat and left < 2 and innermost.size >= 3 * lanes:
        left += lanes
    if left:
        whole, remainder = cut_class(group, innermost, innermost.size - left)
        exact = replace(parameters, rests=False)
        return (*vectorize(whole, exact), VectorClass(remainder, None, streams=None))
    whole, _, lane = _in_lanes(group, innermost, lanes, is_apart=single > 0)
    return (VectorClass(whole, lane, streams, is_apart=single > 0),)


def narrowest_access(group: IterationClass, parameters: MapParameters) -> int:
    """Bytes that a thread moves at a time of the large tensor where these are fewest."""
    if not group.axes:
        return MAX_ALIGNMENT
    innermost, lanes, layouts = group.axes[-1], lanes_of(group, parameters), group.segment.layouts
    return min(
        min(_aligned(layouts[tv], form, innermost, tv), lanes) * tv.dtype.itemsize
        for tv, form in large_accesses(group)
    )


def elements_at_once(group: IterationClass, tv: TensorView, offset: Form, lanes: int) -> int:
    """Elements that one access to an offset moves in a class of so many lanes. Those of copies that
    lie between each other are moved together."""
    if not group.axes or group.axes[-1] not in offset.bases:
        return lanes
    innermost = group.axes[-1]
    step, copies = weight(offset, innermost), [a for n in group.nests for a in n.unrolled]
    if step != 1 and not (step > 1 and copies):
        return 1
    between = [a for a in copies if 0 < weight(offset, a) < step]
    terms = tuple(term for term in offset.terms if term[1].base not in between)
    start = Form(offset.constant - offset.constant % step, terms)
    return min(_aligned(group.segment.layouts[tv], start, innermost, tv), step * lanes)


def _tiled(found: Square, streams: bool | None) -> tuple[VectorClass, ...]:
    """The class of a square with its axes innermost, and what is left that is no run of it."""
    if found.left:
        whole, rest = cut_class(found.group, found.across, found.across.size - found.left)
        (across,) = set(whole.axes) - set(found.group.axes)
        made = replace(found, group=whole, across=across)
        return (*_tiled(made, streams), VectorClass(rest, None, streams=None))
    group, walked, hint = found.group, found.order, streams if found.fills_lines else None
    order = (*(a for a in group.axes if a not in walked), *walked)
    nests = tuple(replace(n, axes=(*order, *n.unrolled)) for n in group.nests)
    cut, across, lane = IterationClass(group.segment, nests), found.across, None
    if found.lanes > 1:
        cut, across, lane = _in_lanes(cut, across, found.lanes)
    return (VectorClass(cut, lane, hint, found.tile(across, lane)),)


def _bytes_stored_singly(group: IterationClass) -> int:
    """Bytes of a row of the narrowest tensor, where each large one that is stored is so element by
    element, as rows of odd length: what threads side by side store at a time then lies side by side
    if their lanes lie apart. 0 for others. Where a thread sums what it stores, that is large which
    is so among what is stored, down to a quarter of what is read."""
    innermost, layouts = group.axes[-1], group.segment.layouts
    stored = [(n.store.target, offset_of(layouts[n.store.target], n.index)) for n in group.nests]
    large = {tv for tv, _ in large_accesses(group)}
    if not large & {tv for tv, _ in stored}:
        large = {tv for tv, _ in large_accesses(group, LEAST_STORED)}
    found = [(tv, form) for tv, form in stored if tv in large]
    are_single = all(
        weight(form, innermost) == 1 == _aligned(layouts[tv], form, innermost, tv)
        for tv, form in found
    )
    widths = [tv.dtype.itemsize for tv, _ in found]
    return innermost.size * min(widths) if widths and are_single else 0


def _in_rows_apart(
    group: IterationClass, lanes: int, streams: bool | None, busy: int
) -> tuple[VectorClass, ...]:
    """The class with lanes in rows that lie as far apart as they can, where a row is too short for
    lanes of its own, and what is left: threads side by side then store a stretch of memory."""
    rows = group.axes[-2]
    if rows.size < MIN_VECTORS * lanes:
        return (VectorClass(_neighbours(group, busy), None, streams),)
    if rows.size % lanes:
        whole, rest = cut_class(group, rows, rows.size - rows.size % lanes)
        return (*_in_rows_apart(whole, lanes, streams, busy), VectorClass(rest, None, streams=None))
    made, _, lane = _in_lanes(group, rows, lanes, is_apart=True)
    return (VectorClass(made, lane, streams, is_apart=True),)


def _neighbours(group: IterationClass, busy: int) -> IterationClass:
    """`group` with neighbouring rows in one thread, in a number that divides them, where these are
    too few for lanes: what a row reads of the next one is loaded once."""
    rows = group.axes[-2]
    most = min(MAX_INSTANCES // max(n.instances for n in group.nests), FEW_NEIGHBOURS)
    count = next((k for k in range(most, 1, -1) if rows.size % k == 0), 1)
    if count == 1 or prod(a.size for a in group.axes) < count * busy:
        return group
    outer, copy = split(rows, count)
    return in_one_thread(group, rows, outer, copy, combine(atom(outer), atom(copy), count))


def _copies_apart(
    group: IterationClass, streams: bool | None, busy: int
) -> tuple[VectorClass, ...]:
    """The class without lanes; with several rows in one thread, where these are too short for lanes
    and stored element by element, as by a gradient of 7 x 7 places: else a thread has too little of
    memory on its way. They lie as far apart as they can, in whole periods of what they are digits
    of, which leaves offsets sums."""
    alone = (VectorClass(group, None, streams),)
    is_large = prod(a.size for a in group.axes) >= COPIES * busy
    fits = COPIES * max(n.instances for n in group.nests) <= MAX_INSTANCES
    if len(group.axes) < 2 or not (is_large and fits and _bytes_stored_singly(group)):
        return alone
    rows = group.axes[-2]
    left = rows.size % (COPIES * _period(group, rows))
    if left * FEW_ROWS > rows.size:
        return alone
    if left:
        whole, rest = cut_class(group, rows, rows.size - left)
        return (*_copies_apart(whole, streams, 0), VectorClass(rest, None, streams=None))
    outer, copy = split(rows, COPIES)
    made = in_one_thread(group, rows, outer, copy, combine(atom(copy), atom(outer), outer.size))
    return (VectorClass(made, None, streams),)


def _period(group: IterationClass, rows: IterDomain) -> int:
    """Of the digits of an axis below the outermost one."""
    digits = (d for n in group.nests for f in n.index for _, d in f.terms if d.base is rows)
    return max((d.stride * (1 if d.is_outermost else d.extent) for d in digits), default=1)


def _in_lanes(
    group: IterationClass, target: IterDomain, lanes: int, is_apart: bool = False
) -> tuple[IterationClass, IterDomain, IterDomain]:
    """`target` as vectors and lanes, which lie side by side or as far `apart` as they can."""
    outer, inner = split(target, lanes)
    lane = parallelize(inner, ParallelType.VECTORIZE)
    value = combine(atom(outer), atom(lane), lanes)
    if is_apart:
        value = combine(atom(lane), atom(outer), outer.size)
    nests = tuple(replace_axis(n, target, (outer, lane), value) for n in group.nests)
    return IterationClass(group.segment, nests), outer, lane


def cut_class(
    group: IterationClass, target: IterDomain, point: int
) -> tuple[IterationClass, IterationClass]:
    """The classes below and from `point` on."""
    low, high = axis(point), axis(target.size - point)
    below = tuple(replace_axis(n, target, (low,), atom(low)) for n in group.nests)
    beyond = shift(atom(high), point)
    above = tuple(replace_axis(n, target, (high,), beyond) for n in group.nests)
    return IterationClass(group.segment, below), IterationClass(group.segment, above)


def _streams(group: IterationClass, streamed: int) -> bool | None:
    """True where nobody will find the stores in the cache. None unless each nest writes whole
    lines: pieces of one store share lines, which the cache has to put together."""
    layouts, targets = group.segment.layouts, {nest.store.target for nest in group.nests}
    if not all(nest.is_whole for nest in group.nests):
        return None
    if targets & group.segment.handed_on:
        return False
    return all(layouts[tv].numel * tv.dtype.itemsize >= streamed for tv in targets)


def lanes_of(group: IterationClass, parameters: MapParameters) -> int:
    """The widest power of two that the accesses can use."""
    if not group.axes:
        return 1
    innermost, accesses, max_lanes = group.axes[-1], group.accesses, parameters.lanes
    itemsizes = [tv.dtype.itemsize for tv, _ in accesses]
    lanes = min(max_lanes, max(MAX_ALIGNMENT // min(itemsizes), 1))
    is_gathered = any(loads_in(group.forms_read))  # what waits twice has twice the bytes
    is_narrow = group.values > FEW_VALUES and not parameters.wide
    if is_narrow and not is_gathered and not _reads_beside(group):
        lanes = min(lanes, max(max_lanes // 2, 1))
    while lanes > 1 and innermost.size % lanes and innermost.size // lanes < MIN_VECTORS:
        lanes //= 2
    for tv, form in accesses:
        while lanes > 1 and not _fits(abs(weight(form, innermost)), lanes, tv):
            lanes //= 2
    for width in _stored_side_by_side(group, innermost):
        while lanes > 1 and lanes * width > MAX_ALIGNMENT:
            lanes //= 2
    single, narrowest = _single(group, innermost), lanes
    for tv, form in large_accesses(group):
        if abs(weight(form, innermost)) == 1 and (tv, form) not in single:
            aligned = _aligned(group.segment.layouts[tv], form, innermost, tv)
            narrowest = min(narrowest, aligned)
    lanes = min(lanes, MAX_SPLIT * narrowest)
    return narrowest if _leaves_more(innermost, lanes, narrowest) else lanes


def _reads_beside(group: IterationClass) -> bool:
    """True where a thread has rows that read each other, if all large accesses are wide: it loads
    few more than one of them, and half as many lanes would have as many elements beside vectors."""
    innermost, layouts = group.axes[-1], group.segment.layouts
    return any(nest.is_beside for nest in group.nests) and all(
        _aligned(layouts[tv], Form(0, form.terms), innermost, tv) * tv.dtype.itemsize >= WIDE_ENOUGH
        for tv, form in large_accesses(group)
        if innermost in form.bases
    )


def _leaves_more(innermost: IterDomain, lanes: int, narrowest: int) -> bool:
    """True where vectors of one access leave nothing of a row, of which those of two leave many
    elements to threads of their own: 4 of 100, beside 12 vectors."""
    vectors, left = divmod(innermost.size, lanes)
    is_of_two = lanes == 2 * narrowest and innermost.size % narrowest == 0
    return is_of_two and FEW_LEFT * left > vectors


def _stored_side_by_side(group: IterationClass, innermost: IterDomain) -> list[int]:
    """Bytes that a thread stores of each large tensor for a lane, of a copy or of several of one
    value, or of values that are read side by side too: one store holds all of a vector's, since
    threads that leave parts of each line to their next store are slower, by an eighth of f32 made
    of 16 bits, and by half of repeated halves."""
    read = group.forms_read
    large, found = {tv for tv, _ in large_accesses(group)}, []
    for nest in group.nests:
        target = nest.store.target
        offset = offset_of(group.segment.layouts[target], nest.index)
        beside = (
            a.size
            for a in nest.unrolled
            if weight(offset, a) == 1
            and (all(a not in f.bases for f in read) or any(weight(f, a) == 1 for f in read))
        )
        copies = next(beside, 1)
        if target in large and weight(offset, innermost) == copies:
            found.append(copies * target.dtype.itemsize)
    return found


def _single(group: IterationClass, innermost: IterDomain) -> Set[tuple[TensorView, Form]]:
    """The loads that lanes do one by one, as they are behind windows that tell them apart."""
    layouts = group.segment.layouts
    return {
        (tv, offset_of(layouts[tv], index))
        for needs in group.needs
        for tv, index in needs.leaves
        if any(innermost in window.form.bases for window in beside(index, tv.shape))
    }


def _aligned(layout: Layout, form: Form, innermost: IterDomain, tv: TensorView) -> int:
    """Elements that one access may take at every index: rows of odd length align nothing."""
    itemsize = tv.dtype.itemsize
    width = gcd(MAX_ALIGNMENT, layout.alignment, form.constant * itemsize)
    for step, digit in form.terms:
        if digit.base is not innermost:
            width = gcd(width, step * itemsize)
    return max(width // itemsize, 1)


def _fits(step: int, lanes: int, tv: TensorView) -> bool:
    """Lanes that are strided by a short unrolled axis share one run of registers."""
    run = step * lanes * tv.dtype.itemsize
    return step <= 1 or run <= MAX_RUN_BYTES or step * tv.dtype.itemsize > 4 * MAX_RUN_BYTES
