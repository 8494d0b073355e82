"""T7, the group template: sums of the rows that an index sends to one place.

    T4[v, d] = sum(T0[order[k], d]) for ends[v - 1] <= k < ends[v]

A block owns neighbouring rows of the result. A part of its threads sums a row of few terms alone,
so that empty rows cost a store; rows of more terms follow, shared by all parts, whose sums meet in
shared memory. Each order is fixed, and each row is written once. Rows that only vectors of a few
bytes divide, such as those of 577 columns, are walked in the vectors that are aligned in the
result; those of a term are put together of two. Blocks before those of pieces of an order find
where its groups end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import TypeAlias

from thunder_fuser.analysis.access import Element, Index
from thunder_fuser.analysis.digits import (
    Form,
    atom,
    ceil_div,
    scale,
    unflatten,
)
from thunder_fuser.analysis.index_map import term_at
from thunder_fuser.analysis.layout import MAX_ALIGNMENT, offset_of
from thunder_fuser.analysis.reductions import is_grouped, is_ordering, is_picked
from thunder_fuser.analysis.short_rows import shifted_vectors
from thunder_fuser.ir.domain import IterDomain, axis
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.digit_stages import EndsSchedule, ends_of
from thunder_fuser.schedule.held_terms import (
    LEAST_BLOCKS,
    MAX_ROW_BYTES,
    ROW_BYTES,
    Held,
    held,
)
from thunder_fuser.schedule.needs import (
    check_sums,
    needs_of,
    place_beside,
)
from thunder_fuser.schedule.parameters import GroupParameters
from thunder_fuser.schedule.rejected import Rejected, rejecting
from thunder_fuser.schedule.text import print_axes, print_elements
from thunder_fuser.schedule.vector_axes import ShiftedAxes, VectorAxes, lane_of
from thunder_fuser.segment.segment import Segment, Store
from thunder_fuser.target import SHARED_UNASKED, WARP, Target

THREADS = 256  # of one block
FEW = 16  # terms that a part sums alone
BATCH = 4  # terms whose loads are in flight together
BUSY_BLOCKS = 8  # of a multiprocessor, below which a block takes fewer rows
SHARING_BLOCKS = 4  # of a multiprocessor, which run at a time
NARROW = 4  # bytes of a vector, up to which those that are aligned in the result are taken
LEAST_COPIED = 4  # bytes of an access that the hardware copies to shared memory
MOST_SHIFTED = 8  # lanes of odd rows: sums of sixteen bytes, of 64 bits each, fill the registers
TURNS = 4  # rows of a part, whose ends, places and first terms are on their way together
PREFERRED = GroupParameters()


@dataclass(frozen=True, eq=False)
class GroupAxes(VectorAxes):
    """The `row` of the result, its dims up to that of the groups; the `vector` and `lane` of the
    dims behind it, of so many `columns`; the `term`, a place of the order, of which a row has a
    stretch; and the `piece` of the order. Shifted ones have the vectors that are aligned in the
    result, of which the first and the last one lie in two rows."""

    row: IterDomain
    term: IterDomain
    piece: IterDomain
    columns: int
    is_shifted: bool = False

    @property
    def shifted(self) -> ShiftedAxes:
        """Those of a row."""
        start = scale(atom(self.row), self.columns)
        return ShiftedAxes(self.vector, self.lane, start, self.columns)

    @property
    def column(self) -> Form:
        return self.shifted.column if self.is_shifted else super().column

    @property
    def names(self) -> dict[IterDomain, str]:
        return {self.row: "row", self.term: "term", self.piece: "piece", **super().names}


@dataclass(frozen=True)
class Ends:
    """The stretch of a row ends where `ends` says for its `group`, and begins where that of the
    group before ends. The group `skip` has none. Pieces of `size` terms are summed before; 0 for no
    pieces."""

    ends: TensorView
    group: Form
    skip: int
    size: int


@dataclass(frozen=True)
class Piece:
    """The stretch of a row is the piece of `size` terms of that number, if all have one key, and
    another one than `skip`; else it is empty."""

    keys: TensorView
    number: Form
    skip: int
    size: int


Stretch: TypeAlias = Ends | Piece
Values: TypeAlias = tuple[Element, ...]


@dataclass(frozen=True, eq=False)
class GroupSchedule:
    """`pieces` are the sums of a piece, one per sum, where pieces were summed before."""

    segment: Segment
    axes: GroupAxes
    stretch: Stretch
    sums: Values
    terms: Values
    pieces: Values
    stores: tuple[tuple[Store, Index], ...]
    threads_across: int  # threads side by side along a row
    parts: int  # the parts of a block's threads
    rows_per_block: int
    held: Held | None  # how a block has the terms of its rows in shared memory
    streams: bool  # the stores bypass the cache
    ends: EndsSchedule | None  # of the groups in the keys of pieces, which other blocks find

    def __str__(self) -> str:
        names, tensors = self.axes.names, self.segment.names
        walked = [a for a in names if a is not self.axes.piece]
        held = f" and {self.held.batch} terms of each part in a window" if self.held else ""
        lines = [
            f"groups over {print_axes(walked, names)}, {_print(self.stretch, tensors)}",
            f"  {self.threads_across} threads across, "
            f"{self.parts} parts that share a row of "
            f"more than {FEW} terms, {self.rows_per_block} rows a block{held}",
            f"  reduce {print_elements(self.sums, tensors, names)} "
            f"of {print_elements(self.terms, tensors, names)}",
        ]
        if self.pieces:
            lines.append(f"  or of pieces {print_elements(self.pieces, tensors, names)}")
        stored = [(s.value, index) for s, index in self.stores]
        streaming = ", streaming" if self.streams else ""
        lines.append(f"  store {print_elements(stored, tensors, names)}{streaming}")
        return "\n".join([*lines, *([f"  beside {self.ends}"] if self.ends else [])])


def _print(stretch: Stretch, tensors: Mapping[TensorView, str]) -> str:
    match stretch:
        case Ends(ends):
            return f"which end in {tensors[ends]}"
        case Piece(keys, size=size):
            return f"pieces of {size} that have one key in {tensors[keys]}"


def schedule(
    segment: Segment, target: Target, parameters: GroupParameters = PREFERRED
) -> GroupSchedule:
    """Axes and threads. Raises Rejected."""
    long = [tv for tv in segment.long if not is_ordering(tv)]
    if not long or not all(is_grouped(tv) and not is_picked(tv) for tv in long):
        raise Rejected("not sums of groups, or others beside them")
    groups = {_group_of(tv) for tv in long}
    if len(groups) != 1:
        raise Rejected("sums of groups of different shapes or orders")
    group = groups.pop()
    beside = [store for store in segment.stores if is_ordering(store.value)]
    written = [store for store in segment.stores if store not in beside]
    walk = _walk(group, long, written, _axes(segment, group))
    deal = _held(segment, group, long, walk, parameters, target)
    if deal is None:
        if (axes := _shifted(segment, walk.axes)) is not None:
            other = _walk(group, long, written, axes)
            walk = other if _is_in_rows(segment, other) else walk
        deal = _deal(walk.axes, long, group.has_many, parameters, target)
    stretch = group.stretch(walk.index[group.dim])
    if group.by not in segment.leaves:
        raise Rejected("the ends of the groups are not in memory")
    check_sums(
        "a sum of groups", segment, dict(walk.sums), (*walk.terms, *walk.pieces), walk.stores
    )
    size = sum(prod(s.target.shape) * s.target.dtype.itemsize for s in written)
    return GroupSchedule(
        segment,
        walk.axes,
        stretch,
        walk.sums,
        walk.terms,
        walk.pieces,
        walk.stores,
        deal.across,
        deal.parts,
        deal.rows,
        deal.held,
        size >= max(target.l2_bytes, 1),
        _ends_beside(segment, beside, stretch, deal.across * deal.parts),
    )


reject = rejecting(schedule)


@dataclass(frozen=True)
class _Deal:
    """The threads across a row, the parts and the rows of a block, and how terms are held."""

    across: int
    parts: int
    rows: int
    held: Held | None = None


def _deal(
    axes: GroupAxes,
    sums: Sequence[TensorView],
    has_many: bool,
    parameters: GroupParameters,
    target: Target,
) -> _Deal:
    """Of blocks whose parts read their rows one by one. Few rows that all parts share are dealt to
    as many blocks as run at a time: a block takes 1 or 2 us for each."""
    across = _across(axes.vector.size, parameters.across)
    parts, chunks = _parts(axes, sums, across), ceil_div(axes.vector.size, across)
    blocks = ceil_div(axes.row.size, parts * TURNS) * chunks
    is_busy = blocks >= BUSY_BLOCKS * target.multiprocessors
    rows = parts * (parameters.turns or (TURNS if is_busy else 1))
    if has_many and not parameters.turns:
        rows = min(rows, axes.row.size * chunks // (SHARING_BLOCKS * target.multiprocessors))
    return _Deal(across, parts, max(1, rows))


def _held(
    segment: Segment,
    group: _Group,
    sums: Sequence[TensorView],
    walk: _Walk,
    parameters: GroupParameters,
    target: Target,
) -> _Deal | None:
    """How a block holds the terms of its rows, which lie in one stretch of an order that nobody
    gives: short ones, and those that only narrow vectors divide, which hardware copies. None if it
    cannot."""
    orders = sums[0].expr.tensors[1:3]
    is_one = group.terms > 0 and prod(group.shape[: group.dim]) == 1
    if group.makes_pieces or not is_one or not all(map(is_ordering, orders)):
        return None
    axes = walk.axes
    needs = needs_of(segment, dict(walk.sums), walk.terms)
    along = (any(axes.bases & form.bases for form in index) for _, index in needs.leaves)
    vectors = [
        axes.lanes * tv.dtype.itemsize
        for (tv, _), is_along in zip(needs.leaves, along, strict=True)
        if is_along
    ]
    if not vectors or any(needs.windows()):
        return None
    across = _across(axes.vector.size, THREADS)
    is_short = max(vectors) * axes.vector.size <= MAX_ROW_BYTES and across == axes.vector.size
    if not is_short and not LEAST_COPIED <= min(vectors) <= NARROW:
        return None
    parts, totals = _parts(axes, sums, across), _bytes_of(sums) * axes.lanes
    chunks = ceil_div(axes.vector.size, across)
    blocks = ceil_div(LEAST_BLOCKS * target.multiprocessors, chunks)
    found = held(across, parts, vectors, totals, group.terms, axes.row.size, blocks)
    if found is None:
        return None
    return _Deal(across, parts, parts * (parameters.turns or found.turns), found)


def _ends_beside(
    segment: Segment, stores: Sequence[Store], stretch: Stretch, threads: int
) -> EndsSchedule | None:
    """The ends of groups that blocks of so many threads find beside sums of pieces: both read the
    keys, and neither what the other makes."""
    if not stores:
        return None
    found = ends_of(segment, stores[0].value, threads)
    is_alone = len(stores) == 1 and not stores[0].is_in_place and threads >= WARP
    if not is_alone or not isinstance(stretch, Piece) or stretch.keys is not found.keys:
        raise Rejected("sums of groups beside an order of another kind than theirs")
    return found


def _across(vectors: int, most: int) -> int:
    """Threads along a row of so many vectors, of which each has one: of 25 or of 100 vectors a warp
    for each 32 would leave a fifth of the threads idle."""
    return ceil_div(vectors, max(1, ceil_div(vectors, most))) or 1


def _parts(axes: GroupAxes, sums: Sequence[TensorView], across: int) -> int:
    """The parts of a block, whose sums meet in shared memory."""
    parts = min(THREADS // across, WARP)
    each = across * axes.lanes * _bytes_of(sums)
    while parts > 1 and parts * (each + TURNS * ROW_BYTES) > SHARED_UNASKED:
        parts //= 2
    return parts


def _bytes_of(sums: Sequence[TensorView]) -> int:
    """Of a lane's sums."""
    return sum(tv.dtype.compute_type.itemsize for tv in sums)


@dataclass(frozen=True)
class _Group:
    """What sums of one kernel have in common: shapes, and the tensor `by` which rows have terms."""

    shape: tuple[int, ...]
    dim: int
    terms: int
    by: TensorView
    skip: int
    size: int  # of pieces, 0 without
    makes_pieces: bool

    @property
    def has_many(self) -> bool:
        """True where rows of a mean length are shared by all parts."""
        return self.terms > FEW * self.shape[self.dim]

    def stretch(self, number: Form) -> Stretch:
        """Of a row, by its index along the summed dim."""
        if self.makes_pieces:
            return Piece(self.by, number, self.skip, self.size)
        return Ends(self.by, number, self.skip, self.size)


def _group_of(tv: TensorView) -> _Group:
    _, order, by, *_ = tv.expr.tensors
    attrs = dict(tv.expr.attrs)
    dim, skip, size = (attrs.get(name, 0) for name in ("dim", "skip", "size"))
    assert isinstance(dim, int)
    assert isinstance(skip, int)
    assert isinstance(size, int)
    makes_pieces = tv.expr.op.name == "group_pieces"
    return _Group(tv.shape, dim, order.shape[0], by, skip, size, makes_pieces)


@dataclass(frozen=True)
class _Walk:
    """What is summed and stored at the `index` of an element of the result."""

    axes: GroupAxes
    index: Index
    sums: Values
    terms: Values
    pieces: Values
    stores: tuple[tuple[Store, Index], ...]


def _walk(
    group: _Group, sums: Sequence[TensorView], stores: Sequence[Store], axes: GroupAxes
) -> _Walk:
    index = (
        *unflatten(atom(axes.row), group.shape[: group.dim + 1]),
        *unflatten(axes.column, group.shape[group.dim + 1 :]),
    )
    columns = axes.columns
    return _Walk(
        axes,
        index,
        tuple((tv, index) for tv in sums),
        tuple(term_at(tv, index, [atom(axes.term)]) for tv in sums),
        tuple(p for tv in sums for p in _piece(tv, index, group, axes)),
        tuple((s, place_beside(s, group.shape, axes.row, axes.column, columns)) for s in stores),
    )


def _piece(tv: TensorView, index: Index, group: _Group, axes: GroupAxes) -> Values:
    """The sum of a piece of the order that `tv` adds in place of its terms."""
    _, _, _, *pieces = tv.expr.tensors
    at = (*index[: group.dim], atom(axes.piece), *index[group.dim + 1 :])
    return tuple((sums, at) for sums in pieces)


def _axes(segment: Segment, group: _Group) -> GroupAxes:
    shape, dim = group.shape, group.dim
    rows, columns = prod(shape[: dim + 1]), prod(shape[dim + 1 :])
    innermost = next((n for n in reversed(shape[dim + 1 :]) if n != 1), 1)
    wide, least = _wide(segment, columns)
    narrow = [segment.layouts[tv].alignment for tv in wide if tv.dtype.itemsize == least]
    lanes = gcd(innermost, min([MAX_ALIGNMENT, *narrow]) // least or 1)
    pieces = group.terms // group.size if group.size else 1
    vectors = axis(columns // lanes), lane_of(lanes)
    return GroupAxes(*vectors, axis(rows), axis(group.terms), axis(pieces), columns)


def _wide(segment: Segment, columns: int) -> tuple[list[TensorView], int]:
    """What has rows of so many elements, and the size of the smallest element."""
    every = (*segment.inputs, *(s.target for s in segment.stores))
    wide = [tv for tv in every if prod(tv.shape) % max(columns, 1) == 0 and tv.ndim > 1]
    return wide, min((tv.dtype.itemsize for tv in wide), default=4)


def _shifted(segment: Segment, axes: GroupAxes) -> GroupAxes | None:
    """The axes whose vectors are aligned in the result; None where those of the rows are wide, or
    rows no longer than one."""
    _, least = _wide(segment, axes.columns)
    lanes = min(MAX_ALIGNMENT // least, MOST_SHIFTED)
    if axes.lanes * least > NARROW or axes.columns <= lanes:
        return None
    vectors = axis(shifted_vectors(axes.columns, lanes)), lane_of(lanes)
    return GroupAxes(*vectors, axes.row, axes.term, axes.piece, axes.columns, is_shifted=True)


def _is_in_rows(segment: Segment, walk: _Walk) -> bool:
    """True where all that differs along a row lies side by side there, results lie densely, and are
    known to be the sums' elements."""
    axes, own = walk.axes, dict(walk.sums)
    flat = axes.aligned(axes.shifted.start)
    for store, index in walk.stores:
        layout = segment.layouts[store.target]
        if layout.alignment < MAX_ALIGNMENT or offset_of(layout, index) != flat:
            return False
    results = (*walk.terms, *walk.pieces, *((s.value, index) for s, index in walk.stores))
    needs = needs_of(segment, own, results)
    offsets = (offset_of(segment.layouts[tv], at) for tv, at in needs.leaves if tv not in own)
    return (
        all(at == own[tv] for tv, at in needs.leaves if tv in own)
        and not any(needs.windows())
        and not any(axes.vector in form.bases for place in needs.places for form in place.index)
        and axes.shifted.fits(offsets)
    )
