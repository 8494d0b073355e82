"""T2, the row template: reductions along rows, and what is computed from them, in one kernel.

    mean = sum(x, rows) / n;  y = (x - mean) * w

    row r, vector c, lane l       x read once and kept packed in registers
    phase 0   sum of x[r, c, l]   over the threads of the row
    phase 1   y[r, c, l]          with the sum as a scalar

The threads of one row form part of a warp, a warp, a block or several blocks, a cluster, which send
each other what they have of a sum. A phase evaluates one level of reductions over the whole row
from the packed loads; what phases compute alike is computed anew, or left in registers where it is
costly. Rows too long for the registers are read again in every phase.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import lru_cache
from math import prod

from thunder_fuser.analysis.access import Demand, Element, Index
from thunder_fuser.analysis.digits import divmod_form, loads_in, unflatten
from thunder_fuser.analysis.index_map import term_at
from thunder_fuser.analysis.reductions import (
    is_scan,
    is_walked,
    met_rows,
    plane_of,
    row_shape,
    scanned_dim,
    sides_of,
    walked_rows,
)
from thunder_fuser.analysis.short_rows import threads_of_row
from thunder_fuser.analysis.totals import totals_of
from thunder_fuser.analysis.walked_rows import is_busy
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Cost
from thunder_fuser.schedule.down_columns import Columns, columns_of, sample_of, turns_of
from thunder_fuser.schedule.met_rows import of_met_rows
from thunder_fuser.schedule.needs import (
    check_in_place,
    check_places,
    needs_of,
    reductions_read,
)
from thunder_fuser.schedule.parameters import RowParameters
from thunder_fuser.schedule.part_rows import of_parts
from thunder_fuser.schedule.phases import phases_of
from thunder_fuser.schedule.rejected import Rejected, rejecting
from thunder_fuser.schedule.residency import PREFERRED, Residency, Row, held_of_edged, of_rows
from thunder_fuser.schedule.row_axes import (
    RowAxes,
    along,
    is_of_row,
    row_axes,
    row_of,
    shifted,
)
from thunder_fuser.schedule.row_reads import reads_of, row_read
from thunder_fuser.schedule.row_schedule import RowSchedule, RowWork
from thunder_fuser.schedule.row_splits import needs_results, shared, walked
from thunder_fuser.schedule.sides import of_sides, side_by_side
from thunder_fuser.schedule.staged import Reads, is_staged
from thunder_fuser.schedule.stored_rows import stored_at
from thunder_fuser.schedule.stretches import (
    alone_in_stretches,
    beside_sums_in_stretches,
    of_images_in_stretches,
    of_stretches,
)
from thunder_fuser.schedule.totals import plan_totals
from thunder_fuser.schedule.walking import beside_sums
from thunder_fuser.segment.segment import Segment, Store
from thunder_fuser.target import WARP, Target

NOT_ALONG = "no reduction along rows that is longer than a thread sums in registers"


def _busy(segment: Segment, target: Target) -> RowSchedule:
    """The schedule, if its blocks keep enough of the machine busy. Raises Rejected."""
    found = schedule(segment, target)
    blocks = found.axes.group.size * found.residency.cluster
    if found.columns.reductions and not is_busy(blocks, target.multiprocessors):
        raise Rejected("column sums beside rows that too few blocks would walk")
    return found


reject = rejecting(_busy)


def schedule(
    segment: Segment, target: Target, parameters: RowParameters = PREFERRED
) -> RowSchedule:
    """Axes, phases and threads. Raises Rejected."""
    work, row, reads = _read(segment, target, parameters.stretches, parameters.ends)
    if work.axes.share is not None:
        found = of_stretches(work, reads, target, parameters)
        if found is None or (not work.columns.reductions and _waits(work)):
            return schedule(segment, target, replace(parameters, stretches=False))
        return placed(work, row, found, work.axes.sides, is_staged=True)
    if work.columns.reductions:
        return placed(work, row, *_beside(row, work, target, parameters))
    return _alone(row, reads, work, target, parameters)


def forget() -> None:
    """Let go of the segments that were read last."""
    _read.cache_clear()


@lru_cache(maxsize=2)  # a tuner asks for one segment with several sets of parameters
def _read(
    segment: Segment, target: Target, stretches: bool, ends: bool
) -> tuple[RowWork, Row, Reads]:
    """What is done for the rows, and what that reads. Raises Rejected."""
    work = _work(segment, target, stretches, ends)
    results = [t for phase in work.phases for t in phase.terms]
    results += [*work.columns.terms, *work.totals.terms, *work.whole]
    return work, row_read(work), reads_of(work, results)


def _work(segment: Segment, target: Target, stretches: bool, ends: bool) -> RowWork:
    """What is done for the rows. Raises Rejected."""
    totals = totals_of(segment.tensors, segment.leaves)
    long = [tv for tv in segment.long if tv not in totals]
    reductions, down = _by_direction(long)
    plane = _plane_of_all(long)
    if down and totals:
        raise Rejected("a sum over all rows beside column sums")
    if segment.met and (down or totals):
        raise Rejected("rows that meet beside sums over all of them")
    staging = target if stretches and not (totals or segment.met) else None
    if not reductions and (staging is None or not all(map(walked_rows, down))):
        raise Rejected(NOT_ALONG)
    reductions = [tv for tv in segment.tensors if tv in {*reductions, *segment.met}]
    axes = _axes(segment, long, down, plane, staging)
    axes = replace(axes, ends=axes.ends or ends)
    axes = of_parts(segment, axes, [term_of(tv, axes) for tv in reductions])
    return work_along(segment, axes, columns_of(segment, down, axes), reductions, totals)


def work_along(
    segment: Segment,
    axes: RowAxes,
    sums: Columns,
    reductions: Sequence[TensorView],
    totals: Sequence[TensorView],
) -> RowWork:
    """What is done along these axes, with `sums` down the columns. Raises Rejected."""
    if axes.row.bases & axes.bases:
        raise Rejected("sums down what are rows to others")
    behind = plan_totals(segment, totals, reductions, axes.row)
    placed = {s for s, _ in (*sums.stores, *behind.stores)}
    own = [(tv, result_index(tv, axes)) for tv in reductions]
    phases = phases_of(segment, own, [term_of(tv, axes) for tv in reductions])
    terms = [t for phase in phases for t in phase.terms if not is_scan(t[0])]
    found = [
        stored
        for s in segment.written
        if s not in placed
        for stored in stored_at(s, segment, axes, terms, own)
    ]
    stores = [(stored.store, stored.index) for stored in found]
    places = {(stored.store, stored.index): stored.places for stored in found if stored.places}
    read = [*(t for p in phases for t in p.terms), *sums.terms, *behind.terms]
    results = [*read, *((s.value, i) for s, i in stores)]
    needs = _checked(segment, reductions, sums, axes, results)
    own_stores = [k for k in stores if k not in places]
    check_in_place(segment, needs.leaves, own_stores, [s for s, _ in sums.stores])
    full = tuple(k for k in stores if _is_whole(*k, axes))
    single = tuple((s, i) for s, i in stores if (s, i) not in full)
    return RowWork(segment, axes, phases, full, single, sums, behind, places)


def _is_whole(store: Store, index: Index, axes: RowAxes) -> bool:
    """True for what is stored as whole rows."""
    is_plane = prod(store.value.shape) == axes.rows * axes.columns
    return is_plane or any(axes.bases & form.bases for form in index)


def placed(
    work: RowWork,
    row: Row,
    residency: Residency,
    rows_per_block: int = 1,
    splits: int = 1,
    chunk: int = 0,
    is_staged: bool = False,
) -> RowSchedule:
    """The schedule of that work, with the rows there."""
    return RowSchedule(
        **{field.name: getattr(work, field.name) for field in fields(RowWork)},
        row=row,
        residency=residency,
        rows_per_block=rows_per_block,
        splits=splits,
        chunk=chunk,
        is_staged=is_staged,
    )


def _alone(
    row: Row, reads: Reads, work: RowWork, target: Target, parameters: RowParameters
) -> RowSchedule:
    """Rows without sums down their columns, each of which a block or a cluster keeps, if it can.
    Raises Rejected."""
    segment, axes, scans = work.segment, work.axes, work.scans
    if work.met > 1:
        held, count = of_met_rows(row, work.met, axes, target, parameters)
        return _perhaps_staged(row, reads, work, held, count)
    results = [tv for tv in work.reduced if not is_scan(tv)]
    is_once = len(work.phases) == 1 and not needs_results(segment, results, work.whole)
    pieces = _in_pieces(row, work, target) if is_once and not scans else None
    if pieces is not None:
        return pieces
    found = None if any(map(is_walked, scans)) else of_rows(row, target, parameters)
    if found is None:
        if not is_once:
            raise Rejected("a running sum beside what is computed from whole rows too long to keep")
        where, chunk = walked(row, scans)
        return placed(work, row, where, chunk=chunk)
    edged = _with_edges(row, work, target, parameters)
    if edged is not None:
        several = max(parameters.block // edged.threads, 1)
        return placed(replace(work, axes=replace(axes, has_edges=True)), row, edged, several)
    several = max(parameters.block // found.threads, 1) if found.cluster == 1 else 1
    return _perhaps_staged(row, reads, work, found, several)


def _perhaps_staged(
    row: Row, reads: Reads, work: RowWork, found: Residency, several: int
) -> RowSchedule:
    """So many rows of a block in registers, through shared memory where they are short and odd."""
    segment, axes, scans = work.segment, work.axes, work.scans
    is_beside = bool(work.totals.reductions or scans or work.places)
    is_plain = not (is_beside or any(loads_in(form for _, form in reads)))
    is_held = found.registers == row.loads.keys() and not found.shared and found.cluster == 1
    if not (
        is_plain and is_held and is_staged(segment, axes, several, found.threads, reads, work.full)
    ):
        return placed(work, row, found, several)
    taken = frozenset(tv for tv, offset in reads if is_of_row(offset, axes))
    return placed(work, row, replace(found, registers=taken), several, is_staged=True)


def _in_pieces(row: Row, work: RowWork, target: Target) -> RowSchedule | None:
    """A row's piece for each of several blocks, its edges apart if it is shifted; None for rows of
    one piece."""
    axes = work.axes
    axes = replace(axes, has_edges=axes.is_shifted and axes.weights < 2)
    found = shared(replace(row, vectors=axes.vectors), axes.rows, target)
    if found is None:
        return None
    where, splits = found
    made = (tv.definition for tv in work.segment.tensors)
    is_costly = any(expr is not None and expr.op.cost is Cost.EXPENSIVE for expr in made)
    if is_costly or work.full:  # what functions and stores of rows need may spill
        where = replace(where, blocks=None)
    return placed(replace(work, axes=axes), row, where, splits=splits)


def _waits(work: RowWork) -> bool:
    """True where a turn would wait for an index that a tensor holds, and for what lies there."""
    single = [(s.value, index) for s, index in work.single]
    return any(loads_in(form for _, form in reads_of(work, [*work.whole, *single])))


def _with_edges(
    row: Row, work: RowWork, target: Target, parameters: RowParameters
) -> Residency | None:
    """Registers of one block for a shifted row whose threads have whole vectors, and an element
    beside them, as many as there may be of those. None where they do not hold the row, and for
    rows with several weights, which were slower so."""
    axes = work.axes
    if not axes.is_shifted or axes.weights > 1 or work.scans or not row.loads:
        return None
    _, most = axes.whole_vectors
    inner = replace(row, vectors=most)
    parameters = replace(parameters, held=parameters.held or held_of_edged(inner))
    found = of_rows(inner, target, parameters)
    if found is None or found.cluster > 1 or found.shared or found.registers != row.loads.keys():
        return None
    return replace(found, threads=max(found.threads, threads_of_row(axes.edges)))


def _beside(
    row: Row, work: RowWork, target: Target, parameters: RowParameters
) -> tuple[Residency, int]:
    """Where rows are while blocks walk them with the sums down their columns, and how many of them
    a block has side by side. Raises Rejected."""
    axes, sums = work.axes, work.columns.summed
    if axes.side is not None:
        return of_sides(row, axes.sides, sums, axes, target, parameters), axes.sides
    if row.vectors < WARP:  # as of samples of a prime number of rows, that none walks side by side
        raise Rejected("column sums beside rows so short that a block has no work for its warps")
    turns = axes.fewest
    as_many = replace(row, count=axes.group.size * turns)  # as if others had no more turns
    as_many = replace(as_many, counted=len(work.columns.counts), meets=len(work.phases))
    walking = beside_sums(as_many, sums, turns, target, parameters)
    if walking is None:
        raise Rejected("column sums beside rows that are too long to be walked")
    return walking, 1


def _by_direction(long: Sequence[TensorView]) -> tuple[list[TensorView], list[TensorView]]:
    """Reductions along rows, and those down columns. Raises Rejected."""
    along = [tv for tv in long if row_shape(tv) is not None]
    down = [tv for tv in long if row_shape(tv) is None]
    if any(map(is_scan, down)):
        raise Rejected("a running sum along another axis than the rows")
    if down and any(map(is_scan, along)):
        raise Rejected("a running sum beside column sums")
    return along, down


def _plane_of_all(long: Sequence[TensorView]) -> tuple[int, int]:
    """Rows and columns of the plane that all reductions walk. Raises Rejected."""
    if not long:
        raise Rejected(NOT_ALONG)
    planes = {plane_of(tv) for tv in long}
    if len(planes) != 1:
        raise Rejected(f"reductions over several planes: {sorted(map(str, planes))}")
    if any(tv.dtype.is_complex for tv in long):
        raise Rejected("a complex reduction")
    return planes.pop() or (0, 0)


def _axes(
    segment: Segment,
    long: Sequence[TensorView],
    down: Sequence[TensorView],
    plane: tuple[int, int],
    staging: Target | None,
) -> RowAxes:
    """The axes, of rows that the sums `down` the columns deal out. Where these may pass through
    shared memory, on a `staging` target, they do if they are short."""
    turns = turns_of(down)
    groups = prod(down[0].shape) // plane[1] if down else plane[0]
    axes = row_axes(segment, long, plane, turns, groups)
    if not down:
        if staging is not None and (not axes.is_shifted or any(map(is_scan, long))):
            return alone_in_stretches(segment, long, axes, staging) or axes
        return axes
    if any(map(sides_of, down)):
        kept = None if staging is None else of_images_in_stretches(segment, down, axes, staging)
        if kept is None:
            raise Rejected("sums of each row of images that pass through no shared memory")
        return _summing(segment, down, kept)
    staged = None if staging is None else beside_sums_in_stretches(segment, down, axes, staging)
    if staged is not None:
        return _summing(segment, down, staged)
    if len(down) == len(long):
        raise Rejected(NOT_ALONG)
    axes = _summing(segment, down, axes)
    walked = shifted(segment, long, axes) or axes
    sides = side_by_side(walked, down)
    if sides is None:
        return walked
    axes = _summing(segment, down, axes.side_by_side(sides))
    return shifted(segment, long, axes) or axes


def _summing(segment: Segment, down: Sequence[TensorView], axes: RowAxes) -> RowAxes:
    """The axes with the row that the sums `down` take in a turn of a group."""
    row = row_of(columns_of(segment, down, axes).terms[0], axes)
    return replace(axes, row=row, sample=sample_of(down[0], axes))


def result_index(tv: TensorView, axes: RowAxes) -> Index:
    """The index of a reduction's result in the row, of a scan's at the column."""
    if not is_scan(tv):
        met = met_rows(tv)
        if met is None:
            return axes.row_index(tv.shape)
        return unflatten(divmod_form(axes.row, met)[0], tv.shape)
    dim = scanned_dim(tv)
    inner = along(axes, tv.shape[dim:])
    return (*unflatten(axes.row, tv.shape[:dim]), *inner)


def term_of(reduction: TensorView, axes: RowAxes) -> Element:
    """The element that `reduction` combines at (row, column), of rows that meet at the row."""
    if met_rows(reduction) is not None:
        (term,) = reduction.expr.tensors
        return term, unflatten(axes.row, term.shape)
    reduced = [a.size for a in reduction.domain.logical if a.is_reduction]
    return term_at(reduction, result_index(reduction, axes), along(axes, reduced))


def _checked(
    segment: Segment,
    reductions: Sequence[TensorView],
    sums: Columns,
    axes: RowAxes,
    results: Sequence[Element],
) -> Demand:
    """What results need: no sum down columns, which is known when all rows have been walked, and
    every reduction at the row that is being worked on. Raises Rejected."""
    down = [tv for tv, _ in sums.reductions]
    needs = needs_of(segment, [*reductions, *down], results)
    if reductions_read(results, needs, dict.fromkeys(down, ())):
        raise Rejected("a column sum is read before all blocks are done")
    check_places(segment, reductions, needs)
    own = {tv: result_index(tv, axes) for tv in reductions}
    if any(index != own[tv] for tv, index in reductions_read(results, needs, own)):
        raise Rejected("a reduction is read at another row than it belongs to")
    return needs
