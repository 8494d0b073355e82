"""T9, the kept column template: columns that a block keeps from their sums to what needs these.

    T1[c] = max(T0[r, c]);  T2[c] = sum(exp(T0[r, c] - T1[c]));  T3[r, c] = ... / T2[c]

    row r, vector c, lane l       x read once, all rows of a tile of columns in registers
    phase 0   max of x            over the threads of a column, through shared memory
    phase 1   sum of exp(x - max)
    then      the elements of the plane, and what there is one of per column

A thread has a vector of columns and every n-th row of it, packed as it lies in memory; what is
computed in one phase is computed anew in the next. Columns too long for the registers are cut, each
kernel reading them again. What is read or stored along the columns passes through shared memory
(`strips.py`), or images of it as a whole do, so that rows to the trace may be columns to memory:

    T1[r] = sum(T0[r, c]), T0 contiguous along r         `schedule_turned`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from thunder_fuser.analysis.access import Element, Index
from thunder_fuser.analysis.digits import Form
from thunder_fuser.analysis.kept_rows import SCRATCH, tall_lanes
from thunder_fuser.analysis.layout import offset_of, registers_of
from thunder_fuser.analysis.odd_columns import lanes_of
from thunder_fuser.analysis.reductions import is_scan, packed_elements, row_shape
from thunder_fuser.ir.domain import IterDomain, axis
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.beside_columns import (
    Beside,
    are_of_samples,
    beside,
    reduced_sizes,
)
from thunder_fuser.schedule.column_axes import ColumnAxes
from thunder_fuser.schedule.columns import (
    column_axes,
    narrowest,
    place_of,
    reduced_by,
    rows_and_columns,
    step_of,
)
from thunder_fuser.schedule.images import Moved, of_places, slot_needs
from thunder_fuser.schedule.kept_tiles import (
    PREFERRED,
    Held,
    Room,
    Tiling,
    met_tiling,
    odd_tiling,
    tall_tiling,
    tiling,
    whole_images,
)
from thunder_fuser.schedule.kept_values import NONE, RowShares, left_values, row_shares
from thunder_fuser.schedule.met_columns import of_sample, vectors_met, with_met
from thunder_fuser.schedule.needs import check_in_place, needs_of, reductions_read
from thunder_fuser.schedule.odd_columns import odd_axes
from thunder_fuser.schedule.parameters import KeptParameters
from thunder_fuser.schedule.phases import Phase, phases_of
from thunder_fuser.schedule.rejected import Rejected, rejecting
from thunder_fuser.schedule.stored_columns import element_of
from thunder_fuser.schedule.strips import Strip, Turned, lies_along, strip
from thunder_fuser.schedule.text import print_axes, print_elements
from thunder_fuser.schedule.vector_axes import lane_of
from thunder_fuser.segment.segment import Segment, Store
from thunder_fuser.target import Target


@dataclass(frozen=True, eq=False)
class KeptSchedule:
    """`full` are stores of every element of the plane, `stores` of one per column."""

    segment: Segment
    axes: ColumnAxes
    phases: tuple[Phase, ...]
    full: tuple[tuple[Store, Index], ...]
    stores: tuple[tuple[Store, Index], ...]
    threads_across: int  # threads side by side along a row
    threads_down: int  # threads of a block that share a column
    blocks_at_once: int | None  # that are to fit on a multiprocessor; None for as many as do
    strip: Strip | None = None  # of what is turned, if anything is
    turned: tuple[TensorView, ...] = ()
    beside: Beside | None = None
    renews: bool = False  # what is kept is converted anew in every phase
    cluster: int = 1  # blocks that share the rows of a tile
    slots: int = 0  # of shared memory, where all of the plane is of images that pass through that
    idle: int = 0  # threads of a block that have no columns of those
    known: tuple[Element, ...] = ()  # of a column, to threads that are at rows then
    samples: tuple[tuple[Store, Index], ...] = ()  # stores of one element per sample
    abreast: int = 1  # blocks of a cluster that have the columns of a sample, which meet
    shares: RowShares = NONE  # what rows have one of, made before the phases
    left: tuple[tuple[Element, ...], ...] = ()  # what the first phase that makes it leaves

    @property
    def names(self) -> dict[IterDomain, str]:
        group = {} if self.beside is None else {self.beside.group: "group"}
        return self.axes.names | group

    def __str__(self) -> str:
        names, tensors = self.names, self.segment.names
        lines = [
            f"kept columns over {print_axes(names, names)}",
            f"  {self.threads_across} threads across, {self.threads_down} down",
        ]
        if self.cluster > 1:
            lines[-1] += f", {self.cluster} blocks that share rows"
        if self.abreast > 1:
            lines[-1] += f", {self.abreast} blocks abreast"
        if self.blocks_at_once is not None:
            lines[-1] += f", {self.blocks_at_once} blocks on a multiprocessor"
        if self.slots:
            lines[-1] += f", {self.slots} slots of images"
        if self.renews:
            lines[-1] += ", converted anew in each phase"
        if self.strip is not None:
            through = ", ".join(tensors[tv] for tv in dict.fromkeys(self.turned))
            lines.append(f"  {through} through strips of {self.strip.run} rows at a time")
        for number, phase in enumerate(self.phases):
            met = "" if phase.met is None else f", of {phase.met} columns that meet"
            reduced = print_elements(phase.reductions, tensors, names)
            terms = print_elements(phase.terms, tensors, names)
            lines.append(f"  phase {number}{met}: {reduced} of {terms}")
        if self.beside is not None:
            reduced = print_elements(self.beside.reductions, tensors, names)
            terms = print_elements(self.beside.terms, tensors, names)
            lines.append(
                f"  beside, of {names[self.beside.group]}s of columns: {reduced} of {terms}"
            )
        for title, found in (
            ("whole columns", self.full),
            ("one element a column", self.stores),
            ("one element a sample", self.samples),
        ):
            stored = print_elements([(s.value, index) for s, index in found], tensors, names)
            lines += [f"  store {title}: {stored}"] if stored else []
        return "\n".join(lines)


def schedule(
    segment: Segment, target: Target, parameters: KeptParameters = PREFERRED
) -> KeptSchedule:
    """Axes, phases and threads. Raises Rejected."""
    return _planned(segment, *rows_and_columns(segment.long), target, parameters)


reject = rejecting(schedule)


def schedule_odd(
    segment: Segment, target: Target, parameters: KeptParameters = PREFERRED
) -> KeptSchedule:
    """The same for columns of odd images that are kept by one block, though nothing of the plane
    may be stored: walked, they would be read one by one. Raises Rejected."""
    rows, columns = rows_and_columns(segment.long)
    long = _kept_reductions(segment, is_turned=False)
    axes = column_axes(segment, long, rows, columns)
    found = _odd(segment, long, axes, False, target, parameters)
    if found is None or found[1].tile.cluster > 1:
        raise Rejected("columns of other planes than those of odd images")
    return _scheduled(segment, *found)


reject_odd = rejecting(schedule_odd)


def schedule_turned(
    segment: Segment, target: Target, parameters: KeptParameters = PREFERRED
) -> KeptSchedule:
    """The same for reductions along the innermost axis, where that is not the one along which
    memory is read. Raises Rejected."""
    shapes = {row_shape(tv) for tv in segment.long} - {None}
    if len(shapes) != 1:
        raise Rejected("not reductions of one shape along rows")
    if not _may_lie_apart(segment):
        raise Rejected("rows that lie row after row")
    columns, rows = shapes.pop() or (0, 0)
    if columns == 1:
        raise Rejected("one row")
    return _planned(segment, rows, columns, target, parameters, is_turned=True)


reject_turned = rejecting(schedule_turned)


def _may_lie_apart(segment: Segment) -> bool:
    """False where nothing is permuted, so that what is innermost to the trace is so in memory."""
    made = (tv.definition for tv in segment.tensors if tv not in segment.leaves)
    strides = (segment.layouts[tv].strides for tv in segment.inputs)
    return any(d is not None and d.op.name == "permute" for d in made) or any(
        list(found) != sorted(found, reverse=True) for found in strides
    )


def _planned(
    segment: Segment,
    rows: int,
    columns: int,
    target: Target,
    parameters: KeptParameters,
    is_turned: bool = False,
) -> KeptSchedule:
    """`is_turned` for reductions along the innermost axis, and sums of groups of rows beside."""
    long = _kept_reductions(segment, is_turned)
    axes = column_axes(segment, long, rows, columns)
    if segment.met:
        if len(long) < len(segment.long) or is_turned:
            raise Rejected("columns that meet, beside other sums")
        plane = _plane(segment, long, axes, is_turned, sums=())
        return _scheduled(segment, plane, met_tiling(plane.room(segment, target)))
    odd = _odd(segment, long, axes, is_turned, target, parameters)
    if odd is not None:
        return _scheduled(segment, *odd)
    sums = [tv for tv in segment.long if tv not in long]
    tall = partial(_tall, segment, long, axes, is_turned, sums, target)
    if parameters.tall and are_of_samples(sums, rows) and (found := tall()) is not None:
        return found  # vectors of all lanes may lie in two rows of an image
    plane = _plane(segment, long, axes, is_turned, sums)
    if parameters.tall and plane.full and plane.is_tall and (found := tall()) is not None:
        return found
    if plane.held.turned.tensors and plane.held.sums and plane.axes.lanes > 1:
        single = _plane(segment, long, ColumnAxes(axis(columns), None, axis(rows)), is_turned, sums)
        tile = whole_images(single.room(segment, target), parameters)
        if tile is not None and tile.slots:
            plane = single
    return _scheduled(segment, plane, tiling(plane.room(segment, target), parameters))


def _tall(
    segment: Segment,
    long: Sequence[TensorView],
    axes: ColumnAxes,
    is_turned: bool,
    sums: Sequence[TensorView],
    target: Target,
) -> KeptSchedule | None:
    """Of threads that have as many rows as they can, of few columns; None for planes that are not
    tall, and where nothing is computed once that is stored. Raises Rejected."""
    lanes = tall_lanes(axes.lanes, [narrowest(segment, long)])
    narrow = ColumnAxes(axis(axes.columns // lanes), lane_of(lanes), axis(axes.row.size))
    tall = _plane(segment, long, narrow, is_turned, sums, is_tall=True)
    if not (tall.left if tall.full else tall.is_tall):
        return None
    found = tall_tiling(tall.room(segment, target))
    if found is None and not tall.full:
        raise Rejected("columns that are too long to be kept")
    return None if found is None else _scheduled(segment, tall, found)


def _kept_reductions(segment: Segment, is_turned: bool) -> list[TensorView]:
    """Those along columns. Raises Rejected."""
    long = [tv for tv in segment.long if not is_turned or row_shape(tv) is not None]
    if any(tv.dtype.is_complex for tv in long):
        raise Rejected("a complex reduction")
    if any(map(is_scan, long)):
        raise Rejected("a running sum down columns that are kept")
    if any(packed_elements(tv) for tv in long):
        raise Rejected("packs of rows, of which the last has fewer")
    return long


def _scheduled(segment: Segment, plane: _Plane, found: Tiling) -> KeptSchedule:
    axes, held = plane.axes, plane.held
    across, down = found.tile.across, found.tile.down
    is_through_strips = bool(held.turned.tensors) and not found.tile.slots
    return KeptSchedule(
        segment=segment,
        axes=axes,
        phases=plane.phases,
        full=plane.full,
        stores=plane.stores,
        threads_across=across,
        threads_down=down,
        blocks_at_once=found.blocks_at_once,
        strip=strip(axes, held.turned, across, down) if is_through_strips else None,
        turned=held.turned.tensors,
        beside=plane.added,
        renews=found.renews,
        cluster=found.tile.cluster,
        slots=found.tile.slots,
        idle=found.tile.idle,
        known=plane.known if found.tile.slots else (),
        samples=plane.samples,
        abreast=found.tile.abreast,
        shares=plane.shares,
        left=plane.left,
    )


def _odd(
    segment: Segment,
    long: Sequence[TensorView],
    axes: ColumnAxes,
    is_turned: bool,
    target: Target,
    parameters: KeptParameters,
) -> tuple[_Plane, Tiling] | None:
    """A plane of images whose rows no vector divides, in vectors of them, and how it is tiled; None
    for others. What is written in place or checked is read by no block that has a neighbour's
    columns too."""
    if not parameters.odd or axes.lanes > 1:
        return None
    sums = [tv for tv in segment.long if tv not in long]
    plane = _plane(segment, long, axes, is_turned, sums=())
    if (width := plane.held.image) is None or plane.held.turned.tensors:
        return None
    if not sums and whole_images(plane.room(segment, target), parameters) is not None:
        return None
    made = (tv.expr.op for tv in segment.tensors if tv not in segment.leaves)
    if any(row.checks for row in made) or any(store.is_in_place for store, _ in plane.full):
        return None
    sizes = {tv: tv.dtype.itemsize for tv in plane.moved}
    extents = (axes.row.size, width, axes.columns // width)
    for lanes in lanes_of([*sizes.values()], *extents, has_sums=bool(sums)):
        if any(segment.layouts[tv].alignment < lanes * size for tv, size in sizes.items()):
            continue
        odd = odd_axes(axes, width, lanes)
        if any(reduced_sizes(tv)[1:] != [odd.stored] for tv in sums):
            continue
        wider = _plane(segment, long, odd, is_turned, sums)
        found = odd_tiling(wider.room(segment, target), odd, parameters)
        if found is not None:
            return wider, found
    return None


@dataclass(frozen=True, eq=False)
class _Plane:
    """What a segment does with the columns of a plane, seen along such axes: what it adds up in
    phases and beside them, what it stores, what threads hold of it, and what is known of a column
    to those at rows of an image."""

    axes: ColumnAxes
    phases: tuple[Phase, ...]
    added: Beside | None
    full: tuple[tuple[Store, Index], ...]
    stores: tuple[tuple[Store, Index], ...]
    samples: tuple[tuple[Store, Index], ...]
    held: Held
    known: tuple[Element, ...]
    moved: tuple[TensorView, ...]
    shares: RowShares
    left: tuple[tuple[Element, ...], ...]

    @property
    def is_tall(self) -> bool:
        """True where columns are only summed, and those of each sample beside them; or where they
        are stored, and what threads have once for their columns is more than any thread has."""
        if self.held.turned.tensors:
            return False
        if self.full:
            is_plain = self.added is None and self.held.slots is None
            return is_plain and self.held.once > SCRATCH
        return self.added is not None and self.added.parts < self.added.group.size

    def room(self, segment: Segment, target: Target) -> Room:
        return Room.of(segment, self.axes, self.phases, self.held, target)


def _plane(
    segment: Segment,
    long: Sequence[TensorView],
    axes: ColumnAxes,
    is_turned: bool,
    sums: Sequence[TensorView],
    is_tall: bool = False,
) -> _Plane:
    """With these `sums` beside those of `long`. Of threads that have tall columns, which are
    stored, it says what is computed once. Raises Rejected."""
    rows, columns = axes.row.size, axes.columns
    reductions, terms = reduced_by(long, axes)
    added = beside(segment, sums, axes) if sums else None
    own = with_met(segment, axes, reductions, terms)
    phases = phases_of(segment, *own)
    full, stores, samples = [], [], []
    for store in segment.written:
        if store.value in segment.long and store.value not in long:
            continue
        if prod(store.value.shape) == rows * columns:
            full.append((store, element_of(store, segment, terms, reductions)))
        elif (place := of_sample(store, segment, axes)) is not None:
            samples.append((store, place))
        else:
            stores.append((store, place_of(store, axes)))
    reductions, terms = own
    walked = [*terms, *(added.terms if added else ()), *((s.value, i) for s, i in full)]
    _check_columns(segment, reductions, walked, [(s.value, i) for s, i in (*stores, *samples)])
    _check_writes(segment, full, [*stores, *samples], walked)
    found = _reads(segment, reductions, walked)
    reads = [(tv, offset) for tv, offset in found if is_of_plane(offset, axes)]
    if not reads:
        raise Rejected("columns of which nothing is in memory")
    writes = [(s.target, offset_of(segment.layouts[s.target], i)) for s, i in full]
    moved = Moved(reads, writes, _turned([*reads, *writes], axes, is_turned))
    of_columns = [tv.dtype.itemsize for tv, offset in found if axes.row not in offset.bases]
    row = moved.vectors_of_row(axes)
    dealt = added.vectors if added else 0
    is_by_rows = row is not None and (added is not None or moved.turns_out)
    known = of_places(segment, walked[len(terms) :], axes.row) if is_by_rows else []
    slots = slot_needs(segment, moved, full, rows, known) if row else None
    turned = Turned.of(moved.turned, axes)
    made, shares = dict(reductions), NONE
    left: tuple[tuple[Element, ...], ...] = ()
    if is_tall and full:
        shares = row_shares(segment, made, walked, axes)
        scopes = [*(phase.terms for phase in phases), [(s.value, i) for s, i in full]]
        left = left_values(segment, scopes, made, shares, axes)
    read = [r for r in _reads(segment, reductions, walked, shares) if r in reads]
    kept = _kept([r for r in read if r not in moved.turned], axes)
    once = registers_of(of_columns, axes.lanes)
    held = Held(kept, turned, tuple(sums), dealt, row, slots, is_stored=bool(full), once=once)
    groups = added.group.size if added else 0
    held = replace(held, met=vectors_met(segment, axes), groups=groups, left=len(left))
    tensors = tuple(tv for tv, _ in (*reads, *writes))
    stored = tuple(full), tuple(stores), tuple(samples)
    return _Plane(axes, phases, added, *stored, held, tuple(known), tensors, shares, left)


def _check_columns(
    segment: Segment,
    reductions: Sequence[Element],
    walked: Sequence[Element],
    stored: Sequence[Element],
) -> None:
    """Every reduction must be read at its own column, and no window may leave the plane. At an
    index that a tensor holds nothing of what is `walked` may be read, which registers hold; what is
    `stored` of a column is read in memory there."""
    own = dict(reductions)
    if needs_of(segment, own, walked).places_read:
        raise Rejected("columns that are kept are read at an index that a tensor holds")
    results = (*walked, *stored)
    needs = needs_of(segment, own, results)
    if any(True for _ in needs.windows()):
        raise Rejected("columns that are kept are read through windows")
    if any(index != own[tv] for tv, index in reductions_read(results, needs, own)):
        raise Rejected("a column sum is read at another column")


def _check_writes(
    segment: Segment,
    full: Sequence[tuple[Store, Index]],
    stores: Sequence[tuple[Store, Index]],
    walked: Sequence[Element],
) -> None:
    """An in-place target may be read at the element that is being written: of the plane by the
    thread that keeps it, of a column by the one that writes it, after all rows."""
    after = [(s.value, i) for s, i in stores]
    for results, made in ((walked, full), (after, stores)):
        read = needs_of(segment, segment.long, results).leaves
        check_in_place(segment, read, made, segment.stores)


def is_of_plane(offset: Form, axes: ColumnAxes) -> bool:
    """True for elements that depend on the row and on the column: those that a thread keeps."""
    return axes.row in offset.bases and not offset.bases.isdisjoint(axes.bases)


def _reads(
    segment: Segment,
    reductions: Sequence[Element],
    walked: Sequence[Element],
    shares: RowShares = NONE,
) -> list[tuple[TensorView, Form]]:
    """What is read in phases and for what is stored of the plane, and where, beside `shares` of
    rows. Raises Rejected for the result of a sum beside them, which no block has yet."""
    own = {*shares.tensors, *(tv for tv, _ in reductions)}
    leaves = needs_of(segment, own, walked).leaves
    if any(tv in segment.long for tv, _ in leaves if tv not in own):
        raise Rejected("columns that are kept are read beside what others come to")
    reads = {(tv, offset_of(segment.layouts[tv], i)): None for tv, i in leaves if tv not in own}
    return list(reads)


def _turned(
    accesses: Sequence[tuple[TensorView, Form]], axes: ColumnAxes, is_turned: bool
) -> list[tuple[TensorView, Form]]:
    """Those of what is read and stored of the plane that lie along columns, where others lie along
    rows; what is written in place twice, as it has a strip for each. Raises Rejected where none
    does, and reductions are along the innermost axis."""
    if any(step_of(offset, axes) == 1 for _, offset in accesses):
        return [(tv, offset) for tv, offset in accesses if lies_along(offset, axes)]
    if is_turned:
        raise Rejected("rows that lie row after row")
    return []


def _kept(planes: Sequence[tuple[TensorView, Form]], axes: ColumnAxes) -> int:
    """Registers of what a thread keeps of one row, or computes where all is in strips. Lanes share
    what their row of an image has one of."""

    def registers(tv: TensorView, offset: Form) -> int:
        return registers_of([tv.dtype.itemsize], axes.lanes if axes.lane in offset.bases else 1)

    return max(sum(registers(*plane) for plane in planes), 1)
