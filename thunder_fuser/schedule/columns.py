"""T5, the column template: reductions down the rows of a plane whose innermost axis is kept.

    T1[c] = sum(T0[r, c])      a thread owns a vector of columns and every n-th row; the n parts of
                               a column meet in shared memory, in a fixed order

Where there are too few columns to fill the machine, several blocks split the rows. Their sums meet
in global memory, again in a fixed order, in the block that comes last.

Of a running sum down the columns a thread has all rows, and what it has summed so far at each; or
several have rows one after another (`column_scans.py`), of few columns in shared memory
(`column_stretches.py`).

What follows from the sums element by element is computed by the thread that owns the column.

Where a column is of packs of rows, the last of which has fewer, threads have a row less from the
vector on in which the plane ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd, prod

from thunder_fuser.analysis.access import Element, Index
from thunder_fuser.analysis.delayed import Delayed, delayed
from thunder_fuser.analysis.digits import Form, atom, ceil_div, evaluate, loads_in, unflatten
from thunder_fuser.analysis.index_map import term_at
from thunder_fuser.analysis.layout import MAX_ALIGNMENT, offset_of, registers_of
from thunder_fuser.analysis.reductions import (
    column_shape,
    is_scan,
    packed_elements,
    scanned_dim,
)
from thunder_fuser.analysis.views import without_padding
from thunder_fuser.ir.domain import axis
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.abreast import abreast
from thunder_fuser.schedule.column_axes import ColumnAxes
from thunder_fuser.schedule.column_checks import (
    check_columns,
    check_ends,
    check_levels,
    check_writes,
)
from thunder_fuser.schedule.column_scans import SCANNED_BYTES, scanned
from thunder_fuser.schedule.column_schedule import ColumnSchedule
from thunder_fuser.schedule.column_stretches import in_stretches, whole_rows
from thunder_fuser.schedule.needs import needs_of
from thunder_fuser.schedule.parameters import ColumnParameters
from thunder_fuser.schedule.rejected import Rejected, rejecting
from thunder_fuser.schedule.row_pieces import BATCH as PIECE_ROWS
from thunder_fuser.schedule.row_pieces import REGISTERS as PIECE_REGISTERS
from thunder_fuser.schedule.row_pieces import axes_of_pieces, check_pieces, is_piece, row_pieces
from thunder_fuser.schedule.stored_columns import elements_of, parts_of
from thunder_fuser.schedule.vector_axes import lane_of
from thunder_fuser.segment.segment import Segment, Store
from thunder_fuser.target import (
    LINE,
    MAX_THREADS,
    REGISTER_BYTES,
    REGISTERS,
    SECTOR,
    WARP,
    Target,
)

THREADS = 256  # of one block
BLOCKS = 4  # of a multiprocessor that share rows, at most: one turn of all
BLOCKS_THAT_STORE = 16  # where they store rows too: a multiprocessor takes several in turn
FEW_TURNS = 2  # that blocks would take, of which the last one is of few: one turn has all rows
FEW_THAT_STORE = 3  # where they store rows too
MIN_TERMS = 1024  # of a column, below which one block is as good
MIN_SHARE = 128  # rows that a block sums at least, where rows are split
MAX_DOWN = 64  # threads that share a column
MAX_TAIL = 128 * 1024  # bytes of partial sums that the last block of a column combines: about 2 us;
# twice as many where the blocks would be fewer than two of a multiprocessor
ENOUGH = 3  # blocks of a multiprocessor, for which a block may take fewer columns
IN_FLIGHT = 32  # registers of loads that a thread waits for at once
BATCH_BYTES = 64  # of a tensor that a thread loads before it sums them: four vectors, or more rows
# of which it has less; not of elements of two bytes, whose instructions take longer than memory
MIN_BATCH = 4  # rows
BATCH_REGISTERS = 72  # that a thread has while it does so, unless what it holds needs more
BATCH_SCRATCH = 24  # of them for what it computes
SCRATCH = 40  # registers that a thread needs beside its sums
DIVISOR_REGISTERS = 3  # of what elements of a column are divided by
LANES_UP = 4  # of a thread that walks up, which has registers for several rows of as many columns
MOST_DELAYED = 8  # values that a thread keeps of each of its columns for the rows above
MANY_MORE = 4  # times as many rows of a thread as it computes again of those behind them
IN_DELAY = 2  # rows that are on their way while a thread walks up
PREFERRED = ColumnParameters()


def schedule(
    segment: Segment, target: Target, parameters: ColumnParameters = PREFERRED
) -> ColumnSchedule:
    """Axes and threads. Raises Rejected."""
    long = [tv for tv in segment.long if not is_piece(tv)]
    rows, columns = rows_and_columns(long)
    if any(tv.dtype.is_complex for tv in long):
        raise Rejected("a complex reduction")
    if len({packed_elements(tv) for tv in long}) != 1:
        raise Rejected("packs of rows beside rows")
    scans = [tv for tv in long if is_scan(tv)]
    if len({tv.expr.attr("reverse") for tv in scans}) > 1:
        raise Rejected("running sums of two directions")
    widest = SCANNED_BYTES if scans else MAX_ALIGNMENT
    of_pieces = axes_of_pieces(segment, rows, columns)
    if of_pieces is not None:
        return _with_pieces(_work(segment, of_pieces), target)
    work = _work(segment, column_axes(segment, long, rows, columns, widest))
    loaded = _loaded(work)
    if scans:
        return _scanning(work, loaded, target)
    if _delays(work):
        widest = min(LANES_UP * narrowest(segment, long), MAX_ALIGNMENT)
        axes = column_axes(segment, long, rows, columns, widest)
        found = _walking_up(_work(segment, axes), target, parameters)
        if found is not None:
            return found
    return _in_batches(work, loaded, target, parameters)


reject = rejecting(schedule)


def _with_pieces(work: ColumnSchedule, target: Target) -> ColumnSchedule:
    """Warps of pieces of rows, in as many blocks as a machine has at once."""
    rows, tiles = work.axes.row.size, ceil_div(work.axes.vector.size, WARP)
    at_once = REGISTERS // (PIECE_REGISTERS * THREADS)
    splits = max(min(at_once * target.multiprocessors // tiles, rows // MIN_SHARE), 1)
    return _threaded(work, WARP, THREADS // WARP, splits, PIECE_ROWS, at_once)


def _scanning(work: ColumnSchedule, loaded: int, target: Target) -> ColumnSchedule:
    """Threads of running sums, which no others share where rows are found by an index."""
    long, may_share = work.long, not work.needs_of(work.of_rows).places
    whole = whole_rows(work.axes, long)
    if may_share:
        of_rows = None if whole is None else _work(work.segment, whole)
        if (staged := in_stretches(work, of_rows, target)) is not None:
            return staged
    found = scanned(work.axes, long, loaded, narrowest(work.segment, long), target, may_share)
    registers = _registers(work, found.batch * loaded) + found.scratch
    threads = ceil_div(found.across * found.down, WARP) * WARP
    at_once = max(REGISTERS // (registers * threads), 1)
    return _threaded(work, found.across, found.down, found.splits, found.batch, at_once)


def rows_and_columns(long: Sequence[TensorView]) -> tuple[int, int]:
    """Of the plane that all reductions walk down its columns. Raises Rejected."""
    shapes = {column_shape(tv) for tv in long}
    if len(shapes) != 1 or None in shapes:
        raise Rejected("not reductions of one shape down the columns")
    return shapes.pop() or (0, 0)


def _work(segment: Segment, axes: ColumnAxes) -> ColumnSchedule:
    """What is reduced and stored, by one thread as yet. Raises Rejected."""
    down = [tv for tv in segment.long if not is_piece(tv)]
    reductions, terms = reduced_by(down, axes)
    pieces = row_pieces(segment, axes, terms, down)
    check_levels(segment, reductions, terms)
    full = _full(segment, axes, terms, reductions)
    of_plane = {store for store, _ in (*full, *(pieces.stores if pieces else ()))}
    others = [store for store in segment.written if store not in of_plane]
    stores = [(s, i) for s in others for i in _places_of(s, segment, axes, reductions)]
    results = [(s.value, i) for s, i in full]
    check_levels(segment, reductions, results)
    check_ends(segment, axes, [*terms, *results], full)
    check_columns(segment, reductions, stores)
    check_writes(segment, stores, [*terms, *results])
    check_pieces(segment, pieces, [*((s.value, i) for s, i in stores), *terms, *results])
    given = (tuple(reductions), tuple(terms), tuple(full), tuple(stores))
    return ColumnSchedule(segment, axes, *given, threads_across=1, threads_down=1, pieces=pieces)


def _full(
    segment: Segment, axes: ColumnAxes, terms: Sequence[Element], reductions: Sequence[Element]
) -> list[tuple[Store, Index]]:
    """The stores of every element of the plane, some of several for each."""
    anew = [store for store in segment.written if not store.is_in_place]
    return [(s, i) for s in anew for i in elements_of(s, segment, axes.size, terms, reductions)]


def _places_of(
    store: Store, segment: Segment, axes: ColumnAxes, reductions: Sequence[Element]
) -> tuple[Index, ...]:
    """The indices of what a column has of a result. Raises Rejected."""
    found = parts_of(store, segment, axes.column, axes.columns, reductions)
    return found or (place_of(store, axes),)


def _threaded(
    work: ColumnSchedule, across: int, down: int, splits: int, batch: int, at_once: int | None
) -> ColumnSchedule:
    return replace(
        work,
        threads_across=across,
        threads_down=down,
        splits=splits,
        batch=batch,
        blocks_at_once=at_once,
    )


def _delays(work: ColumnSchedule) -> tuple[Delayed, ...]:
    """What a thread that walks up has computed some rows ago, if it has registers for it."""
    if work.axes.elements is not None:
        return ()
    found = delayed(work.of_rows, work.needs_of(work.of_rows), work.axes.row)
    return found if sum(len(line.ago) for line in found) <= MOST_DELAYED else ()


def _walking_up(
    work: ColumnSchedule, target: Target, parameters: ColumnParameters
) -> ColumnSchedule | None:
    """Threads with rows one after the other, if each has many more than it needs behind them."""
    work, axes = replace(work, delays=_delays(work)), work.axes
    across, down, splits = _threads(work, target, parameters)
    ago = [len(line.ago) for line in work.delays]
    registers = _registers(work, IN_DELAY * _loaded(work)) + sum(ago) * axes.lanes
    at_once = max(REGISTERS // (registers * across * down), 1)
    tiles, room = ceil_div(axes.vector.size, across), at_once * target.multiprocessors
    splits = _in_one_turn(splits, tiles, axes.row.size, room, FEW_THAT_STORE)
    if axes.row.size // (splits * down) < MANY_MORE * max(ago):
        return None
    return _threaded(work, across, down, splits, 1, at_once)


def _in_batches(
    work: ColumnSchedule, loaded: int, target: Target, parameters: ColumnParameters
) -> ColumnSchedule:
    """Threads side by side in the next row of all, with several on their way."""
    axes, rows = work.axes, work.axes.row.size
    across, down, splits = _threads(work, target, parameters)
    turns = ceil_div(ceil_div(rows, splits), down)
    most = _batch(work, loaded)
    batch = most if parameters.fills else max(min(most, turns), 1)
    registers = _registers(work, batch * loaded)
    warps = ceil_div(across * down, WARP)
    at_once = REGISTERS // (registers * warps * WARP)
    if batch == 1 or not at_once:
        return _threaded(work, across, down, splits, batch, None)
    few, room = FEW_THAT_STORE, at_once
    if not work.full:
        few, room = FEW_TURNS, _room(work.states, across * down, registers)
    tiles, room = ceil_div(axes.vector.size, across), room * target.multiprocessors
    splits = _in_one_turn(splits, tiles, rows, room, few)
    return _threaded(work, across, down, splits, batch, at_once)


def reduced_by(long: Sequence[TensorView], axes: ColumnAxes) -> tuple[list[Element], list[Element]]:
    """The results of reductions and scans, and the element that each combines at (row, column)."""
    reductions = [(tv, _result_index(tv, axes)) for tv in long]
    return reductions, [_term_of(tv, index, axes) for tv, index in reductions]


def _result_index(tv: TensorView, axes: ColumnAxes) -> Index:
    """The index of a reduction's result, of a scan's at the row."""
    if not is_scan(tv):
        return unflatten(axes.column, tv.shape)
    dim = scanned_dim(tv)
    kept = unflatten(axes.column, [*tv.shape[:dim], *tv.shape[dim + 1 :]])
    return (*kept[:dim], atom(axes.row), *kept[dim:])


def _term_of(tv: TensorView, index: Index, axes: ColumnAxes) -> Element:
    reduced = [a.size for a in tv.domain.logical if a.is_reduction]
    term = term_at(tv, index, unflatten(atom(axes.row), reduced))
    return term if axes.elements is None else without_padding(term, axes.elements)


def column_axes(
    segment: Segment,
    long: Sequence[TensorView],
    rows: int,
    columns: int,
    widest: int = MAX_ALIGNMENT,
) -> ColumnAxes:
    """The axes of a plane, of which as many columns are a vector of so many bytes at most as lie
    side by side wherever those of the innermost dim do: of 14 by 14 pixels four."""
    elements = packed_elements(long[0])
    plane = [tv for tv in segment.inputs if prod(tv.shape) >= (elements or rows * columns)]
    lanes = max(widest // min((tv.dtype.itemsize for tv in plane), default=4), 1)
    innermost = [_innermost(tv) for tv in long]
    aligned = [segment.layouts[tv].alignment // tv.dtype.itemsize for tv in plane]
    lanes = max(min([lanes, *aligned]), 1)

    def of_lanes(count: int) -> ColumnAxes:
        return ColumnAxes(axis(columns // count), lane_of(count), axis(rows), elements=elements)

    found = of_lanes(gcd(lanes, *innermost))
    if 1 in innermost:
        return found
    while lanes > found.lanes:
        wider = of_lanes(lanes)
        is_whole = columns % lanes == 0
        if is_whole and _straight(segment, long, wider) == _straight(segment, long, found):
            return wider
        lanes //= 2
    return found


def _innermost(tv: TensorView) -> int:
    """Columns that lie side by side whatever the layout; one where rows are scanned."""
    axes = tv.logical[scanned_dim(tv) + 1 :] if is_scan(tv) else tv.logical
    return next((a.size for a in reversed(axes) if a.size != 1), 1)


def _straight(segment: Segment, long: Sequence[TensorView], axes: ColumnAxes) -> int:
    """How much of what is read and stored of the plane lies column beside column."""
    reductions, terms = reduced_by(long, axes)
    stored = _full(segment, axes, terms, reductions)
    results = [*terms, *((s.value, index) for s, index in stored)]
    read = needs_of(segment, long, results).leaves
    moved = [(tv, index) for tv, index in read if tv in segment.leaves]
    moved += [(s.target, index) for s, index in stored]
    return sum(_is_straight(offset_of(segment.layouts[tv], i), axes) for tv, i in moved)


def _is_straight(offset: Form, axes: ColumnAxes) -> bool:
    if axes.lane is None:
        return not any(loads_in([offset])) and step_of(offset, axes) == 1
    own = [term for term in offset.terms if term[1].base is axes.lane]
    rest = Form(0, tuple(term for term in offset.terms if term[1].base is not axes.lane))
    is_apart = axes.lane not in rest.bases
    return is_apart and [weight for weight, digit in own if digit.is_whole] == [1]


def step_of(offset: Form, axes: ColumnAxes) -> int:
    """How far the second column lies behind the first."""
    inner = axes.vector if axes.lane is None else axes.lane
    start = dict.fromkeys(offset.bases, 0)
    return evaluate(offset, {**start, inner: min(1, inner.size - 1)}) - evaluate(offset, start)


def place_of(store: Store, axes: ColumnAxes) -> Index:
    """The index of a result with one element a column, as an element of it. Raises Rejected for
    others."""
    if prod(store.value.shape) != axes.columns:
        raise Rejected(f"a result of shape {list(store.value.shape)} is no {axes.columns} columns")
    return unflatten(axes.column, store.value.shape)


def _threads(
    work: ColumnSchedule, target: Target, parameters: ColumnParameters
) -> tuple[int, int, int]:
    """Threads along and down a block, fewer along where there are too few blocks to fill the
    machine: still a line of each row, or a sector where most of it would have none. And the blocks
    that split the rows."""
    rows, vectors, lanes = work.axes.row.size, work.axes.vector.size, work.axes.lanes
    states, machine = work.states, target.multiprocessors
    most = (parameters.blocks or (BLOCKS_THAT_STORE if work.full else BLOCKS)) * machine
    narrow = lanes * narrowest(work.segment, work.long)

    def shared_by(across: int) -> tuple[int, int]:
        """Blocks side by side of so many threads abreast, and those that split the rows."""
        tiles = ceil_div(vectors, across)
        return tiles, _splits(rows, tiles, across * states, most, target)

    across = parameters.across
    while across > 1 and across // 2 >= vectors:
        across //= 2
    whole = abreast(work.long, narrow, lanes, across) if parameters.across == WARP else None
    if whole is not None and prod(shared_by(whole)) >= ENOUGH * machine:
        across = whole
    tiles, splits = shared_by(across)
    for least, enough in ((LINE, ENOUGH * machine), (SECTOR, machine // 2)):
        while tiles * splits < enough and across // 2 * narrow >= least:
            across //= 2
            tiles, splits = shared_by(across)
    threads = parameters.threads or _threads_of(tiles * splits, states, target)
    deepest = WARP if threads == THREADS else MAX_DOWN
    if not parameters.fills:  # else they were as many as so few rows allow
        deepest *= max(LINE // (across * narrow), 1)
    down = 1
    threads = min(threads + threads // 8, MAX_THREADS)  # whole rows are rarely a power of two
    while down * 2 * across <= threads and down * 2 <= min(rows // splits, deepest):
        down *= 2
    return across, down, splits


def _threads_of(blocks: int, states: int, target: Target) -> int:
    """Threads of a block, each with sums of `states` bytes: more where blocks are few."""
    threads = MAX_THREADS if blocks < target.multiprocessors else MAX_THREADS // 2
    if blocks >= ENOUGH * target.multiprocessors:
        return THREADS
    while threads > THREADS and threads * (states // REGISTER_BYTES + SCRATCH) > REGISTERS:
        threads //= 2
    return threads


def narrowest(segment: Segment, long: Sequence[TensorView]) -> int:
    """Bytes of an element of what is read of the plane."""
    terms = {packed_elements(tv) or prod(a.size for a in tv.domain.logical) for tv in long}
    read = (tv for tv in segment.inputs if prod(tv.shape) >= min(terms))
    return min((tv.dtype.itemsize for tv in read), default=4)


def _batch(work: ColumnSchedule, loaded: int) -> int:
    """Rows that a thread loads at a time, at most, fewer where each has more `loaded` registers."""
    width = work.axes.lanes * narrowest(work.segment, work.long)
    rows = BATCH_BYTES // width if width >= REGISTER_BYTES else MIN_BATCH
    return max(min(IN_FLIGHT // max(loaded, 1), rows), 1)


def _loaded(work: ColumnSchedule) -> int:
    """Registers of what a thread loads for a row: of a convolution, several of one tensor."""
    axes, segment = work.axes, work.segment
    read = [(tv, i) for tv, i in work.needs_of(work.of_rows).leaves if tv in segment.leaves]
    offsets = ((tv, offset_of(segment.layouts[tv], i)) for tv, i in read)
    return _of_vectors([tv for tv, o in offsets if {axes.row, axes.vector} <= o.bases], axes)


def _of_vectors(tensors: Sequence[TensorView], axes: ColumnAxes) -> int:
    """Registers of a vector of each."""
    return registers_of((tv.dtype.itemsize for tv in tensors), axes.lanes)


def _registers(work: ColumnSchedule, loaded: int) -> int:
    """That a thread has for its sums, what it `loaded` and what it has of its columns."""
    segment, axes = work.segment, work.axes
    read = needs_of(segment, work.long, work.terms).leaves
    columns = [
        tv
        for tv, index in read
        if tv in segment.leaves and axes.row not in offset_of(segment.layouts[tv], index).bases
    ]
    sums = work.states // REGISTER_BYTES
    held = sums + loaded + _of_vectors(columns, axes)
    held += DIVISOR_REGISTERS * axes.lanes * len(work.divisors)
    return max(held + BATCH_SCRATCH, BATCH_REGISTERS)


def _room(states: int, threads: int, registers: int) -> int:
    """Blocks of so many threads, with so many registers at most, that fit on a multiprocessor, if
    each has sums of `states` bytes and the loads of a batch of one tensor in flight."""
    needed = states // REGISTER_BYTES + IN_FLIGHT // 2 + SCRATCH
    return REGISTERS // (min(needed, registers) * threads)


def _in_one_turn(splits: int, tiles: int, rows: int, room: int, few: int) -> int:
    """Fewer splits where the machine would take `few` turns at most, with room for as many blocks
    in each: the rest would be a turn of its own, on a few multiprocessors."""
    if not tiles <= room < tiles * splits < few * room:
        return splits
    return ceil_div(rows, ceil_div(rows, room // tiles))


def _splits(rows: int, tiles: int, width: int, most: int, target: Target) -> int:
    """Blocks that share the rows of each of `tiles`, `most` in all, each with partial sums of
    `width` bytes."""
    if rows < MIN_TERMS:
        return 1
    wanted = most // tiles
    tail = MAX_TAIL if MAX_TAIL // width * tiles >= 2 * target.multiprocessors else 2 * MAX_TAIL
    splits = max(min(wanted, rows // MIN_SHARE, tail // width), 1)
    return ceil_div(rows, ceil_div(rows, splits))  # none is left without a row
