"""Where in a row a segment's results lie, as seen from the row that is being worked on.

    T5[b, h, t, d] = T0[b, t, h, d] * rsqrt(sum over d of T0[b, t, h, d]^2)

Rows are numbered as the reduction's: row is (b, t, h). What is stored in another order of its dims
is stored where it reads the sum of the row, also in windows of 7 x 7 rows, say. Of rows that were
rolled first, that is one place for each piece: of t < 3 it is t + 53, of others t - 3.

    T6[k, r] = cat of mean[r], deviation[r], largest[r]    three elements of row r, at k = 0, 1, 2
    T7[r, 2 * d] = cat of T8[r, d], T9[r, d]               two elements for each of row r, d apart
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

from thunder_fuser.analysis.access import Element, Index
from thunder_fuser.analysis.digits import (
    Form,
    atom,
    inverted,
    scale,
    shift,
    substitute,
    unflatten,
    weight_of,
)
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.analysis.layout import linear, offset_of
from thunder_fuser.analysis.views import indices_as_viewed
from thunder_fuser.ir.domain import IterDomain, axis
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Family
from thunder_fuser.schedule.needs import needs_of
from thunder_fuser.schedule.rejected import Rejected
from thunder_fuser.schedule.row_axes import RowAxes, along
from thunder_fuser.segment.segment import Segment, Store

Elements = Sequence[Element]
MOVES = frozenset({Family.VIEW, Family.PAD, Family.CAT})


@dataclass(frozen=True)
class Place:
    """An index of what is stored, where all of the guards hold."""

    index: Index
    guards: tuple[Window, ...] = ()


@dataclass(frozen=True)
class Stored:
    """The value of a store at an index, which lies there, or at one of `places`."""

    store: Store
    index: Index
    places: tuple[Place, ...] = ()


FEW = 16  # elements that follow from a row, up to which its first thread stores them one by one


def stored_at(
    store: Store, segment: Segment, axes: RowAxes, terms: Elements, reductions: Elements
) -> tuple[Stored, ...]:
    """What is stored in terms of row and column, of whole rows one element, that of a term if it
    has the same shape; `reductions` are those of the row, each at its own. Raises Rejected."""
    shape = store.value.shape
    if prod(shape) == axes.rows:
        return (Stored(store, axes.row_index(shape)),)
    found = _few(store.value, segment, axes, reductions) or _parts(store, segment, axes, reductions)
    if found:
        return tuple(Stored(store, index) for index in found)
    return (_whole(store, segment, axes, terms, reductions),)


def _few(
    value: TensorView, segment: Segment, axes: RowAxes, reductions: Elements
) -> tuple[Index, ...]:
    """The indices of a few elements that follow from the reductions of each row: one in each of the
    parts of a dim, such as what was stacked along it. None where no dim has such parts, or where
    they are a whole row."""
    shape, rows = value.shape, dict(reductions)
    count, rest = divmod(prod(shape), axes.rows)
    if rest or not 1 < count <= FEW or count == axes.columns:
        return ()
    for dim, size in enumerate(shape):
        if size % count == 0:
            part = size // count
            before, own, after = shape[:dim], (part,), shape[dim + 1 :]
            index = axes.row_index((*before, *own, *after))
            places = (shift(index[dim], k * part) for k in range(count))
            found = tuple((*index[:dim], place, *index[dim + 1 :]) for place in places)
            needs = needs_of(segment, rows, [(value, i) for i in found])
            read = [(tv, i) for tv, i in needs.leaves if tv in rows]
            if read and all(i == rows[tv] for tv, i in read):
                return found
    return ()


def _parts(
    store: Store, segment: Segment, axes: RowAxes, reductions: Elements
) -> tuple[Index, ...]:
    """The indices of several elements for each of a row, one in each of the parts of a dim, side by
    side or in turns, such as the gradients of both halves of what was split: those that read least.
    None where no dim has such parts, or where they are of other rows; nor for rows that are
    shifted, beside which these are not."""
    shape, rows = store.value.shape, dict(reductions)
    count, rest = divmod(prod(shape), axes.rows * axes.columns)
    if rest or not 1 < count <= FEW or axes.is_shifted or store.is_in_place:
        return ()
    found = dict[tuple[Index, ...], int]()  # and how many elements of planes they read
    for dim, size in enumerate(shape):
        sizes = (*shape[:dim], size // count, *shape[dim + 1 :])
        cuts = (k for k in range(len(sizes) + 1) if prod(sizes[k:]) == axes.columns)
        cut = next((k for k in cuts if prod(sizes[:k]) == axes.rows), None)
        if size % count or cut is None:
            continue
        index = (*axes.row_index(sizes[:cut]), *along(axes, sizes[cut:]))
        in_turns = [(1, count)] if dim < cut else []  # lanes stay side by side
        for apart, step in ((sizes[dim], 1), *in_turns):
            place = scale(index[dim], step)
            places = (shift(place, k * apart) for k in range(count))
            parts = tuple((*index[:dim], place, *index[dim + 1 :]) for place in places)
            leaves = needs_of(segment, rows, [(store.value, i) for i in parts]).leaves
            if all(i == rows[tv] for tv, i in leaves if tv in rows):
                found[parts] = sum(prod(tv.shape) >= axes.columns for tv, _ in leaves)
    return min(found, key=lambda parts: found[parts], default=())


def _whole(
    store: Store, segment: Segment, axes: RowAxes, terms: Elements, reductions: Elements
) -> Stored:
    """What has an element for each of a row. Raises Rejected."""
    shape = store.value.shape
    cuts = (k for k in range(len(shape) + 1) if prod(shape[k:]) == axes.columns)
    cut = next((k for k in cuts if prod(shape[:k]) == axes.rows), None)
    inner = along(axes, shape[cut:]) if cut is not None else ()
    if cut is not None and _is_moved(store.value):
        rolled = _rolled(store, shape[:cut], inner, segment, axes, reductions)
        if rolled is not None:
            return rolled
    viewed = next(indices_as_viewed(terms, shape), None)
    if viewed is not None:
        return Stored(store, viewed)
    if cut is not None:
        reads = _reads(store.value, shape[:cut], inner, segment, reductions)
        outer = reads[0].place(reads[0].own) if reads else None
        if outer is not None and not _lies_in(outer, shape[:cut]):
            raise Rejected("a result reads reductions of other rows than it has")
        return Stored(store, (*(outer or axes.row_index(shape[:cut])), *inner))
    if prod(shape) == axes.rows * axes.columns and not axes.is_shifted:
        orders = (linear(tv.shape, i) for tv, i in terms if prod(tv.shape) == prod(shape))
        return Stored(store, unflatten(next(orders, axes.flat), shape))
    raise Rejected(f"a result of shape {list(shape)} has no rows of {axes.columns} elements")


@dataclass(frozen=True)
class _Read:
    """A value at these outer `dims` reads a reduction at `index`, which the row has at `own`."""

    dims: Index
    index: Index
    own: Index

    def place(self, index: Index) -> Index | None:
        """The dims at which it reads that index; None where that is not one place."""
        known = inverted(self.index, index)
        needed = frozenset[IterDomain]().union(*(form.bases for form in self.dims))
        if known is None or not needed <= known.keys():
            return None
        return tuple(substitute(form, known) for form in self.dims)


def _reads(
    value: TensorView,
    sizes: Sequence[int],
    inner: Index,
    segment: Segment,
    reductions: Elements,
) -> tuple[_Read, ...]:
    """Where the value reads a reduction of the row, the first that it reads, over outer dims of
    these `sizes`."""
    dims, rows = tuple(atom(axis(n)) for n in sizes), dict(reductions)
    needs = needs_of(segment, rows, [(value, (*dims, *inner))])
    first = next((tv for tv, _ in needs.leaves if tv in rows), None)
    if first is None:
        return ()
    return tuple(_Read(dims, index, rows[first]) for tv, index in needs.leaves if tv is first)


def _lies_in(index: Index, shape: Sequence[int]) -> bool:
    return all(
        form.bounds[0] >= 0 and form.bounds[1] < size
        for form, size in zip(index, shape, strict=True)
    )


def _is_moved(tv: TensorView) -> bool:
    return tv.definition is not None and tv.definition.op.family in MOVES


def _rolled(
    store: Store,
    sizes: Sequence[int],
    inner: Index,
    segment: Segment,
    axes: RowAxes,
    reductions: Elements,
) -> Stored | None:
    """What is moved in pieces of rows, each to another distance from where it is reduced; None
    where it is not, or is computed behind that, or the pieces are not all of it."""
    if axes.is_shifted or store.is_in_place:
        return None
    reads = _reads(store.value, sizes, inner, segment, reductions)
    if len(reads) < 2:
        return None
    own = reads[0].own
    whole = tuple(atom(axis(form.bounds[1] + 1)) for form in own)
    found = [_piece(store.value, inner, segment, read, whole) for read in reads]
    pieces = [piece for piece in found if piece is not None]
    if len(pieces) < len(reads) or sum(piece.share for piece in pieces) != 1:
        return None
    most = max(pieces, key=lambda piece: piece.share)
    if not all(piece.value is most.value and piece.has(most.index) for piece in pieces):
        return None

    def of_row(index: Index) -> Index:
        """An index of what is counted through, at the row."""
        counted = zip(whole, own, strict=True)
        at = {base: form for count, form in counted for base in count.bases}
        return tuple(substitute(form, at) for form in index)

    def guarded(piece: _Piece) -> tuple[Window, ...]:
        cut = zip(own, piece.reach, whole, strict=True)
        return tuple(
            Window(shift(form, -first), last - first + 1)
            for form, (first, last), count in cut
            if (first, last) != count.bounds
        )

    places = tuple(Place(of_row(piece.place), guarded(piece)) for piece in pieces)
    offsets = [offset_of(segment.layouts[store.target], place.index) for place in places]
    if axes.lane is not None and any(weight_of(o, axes.lane) is None for o in offsets):
        return None  # lanes that are stored one by one have no guards
    return Stored(replace(store, value=most.value), of_row(most.index), places)


@dataclass(frozen=True)
class _Piece:
    """The rows within `reach`, whose elements, those of a value at an index, are moved to a place:
    a `share` of all rows. Rows are told by `whole` axes, in `part` by their number in the piece."""

    value: TensorView
    index: Index
    place: Index
    reach: tuple[tuple[int, int], ...]
    share: Fraction
    part: Mapping[IterDomain, Form]

    def has(self, index: Index) -> bool:
        """True where that is its index, as far as it reaches."""
        own, other = (tuple(substitute(f, self.part) for f in i) for i in (self.index, index))
        return own == other


def _piece(
    value: TensorView, inner: Index, segment: Segment, read: _Read, whole: Index
) -> _Piece | None:
    """What is moved so; None where it has several sources. Its rows are counted from the first of
    the piece: so no digit of a place is negative."""
    reach, part = list[tuple[int, int]](), dict[IterDomain, Form]()
    back, counted, share = dict[IterDomain, Form](), list[Form](), Fraction(1)
    for form, count in zip(read.index, whole, strict=True):
        first, last = max(form.bounds[0], 0), min(form.bounds[1], count.bounds[1])
        if first > last:
            return None
        number = axis(last - first + 1)
        counted.append(shift(atom(number), first))
        reach.append((first, last))
        part |= dict.fromkeys(count.bases, counted[-1])
        back[number] = shift(count, -first)
        share *= Fraction(number.size, count.bounds[1] + 1)
    outer = read.place(tuple(counted))
    moved = None if outer is None else _source(value, (*outer, *inner), segment)
    if outer is None or moved is None:
        return None
    index, place = (tuple(substitute(f, back) for f in i) for i in (moved[1], (*outer, *inner)))
    return _Piece(moved[0], index, place, tuple(reach), share, part)


def _source(value: TensorView, index: Index, segment: Segment) -> Element | None:
    """The element that is moved to the index of `value`; None where that depends on the row."""
    elements = needs_of(segment, segment.long, [(value, index)]).elements
    while (value, index) in elements and _is_moved(value):
        sources = elements[value, index].sources
        if len(sources) != 1 or sources[0].windows:
            return None
        value, index = sources[0].producer, sources[0].index
    return value, index
