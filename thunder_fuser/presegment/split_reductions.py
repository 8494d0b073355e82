"""Split sums down the columns of a plane whose rows are reduced too.

    T1: f32[i8192] = sum(T0: bf16[i16384, i8192], dims=[0]);  T9 = sum(T0, dims=[1])
        =>   T1: f32[i16384, i8192] = cast(T0);  T2: f32[i64, i256, i8192] = reshape(T1)
             T3: f32[i256, i64, i8192] = permute(T2);  T4: f32[i256, i8192] = sum(T3, dims=[1])
             T5: f32[i8192] = sum(T4, dims=[0])

The row template sums a part per block of rows while it walks them; the parts are summed behind it.
Every block has a part of every column, so the last one to come would have to read all parts alone:
that is a launch of its own, spread over the machine. Of rows too long for one block a cluster has a
part of every column (`analysis/walked_rows.py`). Other long reductions are split by the schedule
(`schedule/columns.py`, `schedule/row_splits.py`).

Where no number of blocks divides the rows as it should, some blocks have none in the last turn:

    T2: f32[i16443, i8192] = pad(T1);  T3: f32[i63, i261, i8192] = reshape(T2)    of 16381 rows

Blocks walk side by side, as if the rows were dealt out: with a stretch of rows for each block they
are at 256 places of memory at a time, and slower. Of short rows as many are dealt at a time as a
block walks at once (`analysis/short_rows.py`): neighbours, or of odd length those that begin in the
same lane, as many rows apart as there are blocks.

    T3: f32[i149, i264, i8, i300] = reshape(T2)    314,600 rows of 600: blocks of neighbours
    T3: f32[i149, i8, i264, i299] = reshape(T2)    of 598: each has every 264th

Where neighbours pass through shared memory, up to a few hundred columns, they are a stretch of
whole vectors whatever the length of one.

Sums over the rows of each of several samples, as the gradients of a scale that each has of its
own, are of a block for each sample already. Where that leaves blocks of the machine idle, samples
are split in parts, of which the last may have fewer rows:

    T1: f32[i83, i1152] = sum(T0: f32[i83, i256, i1152], dims=[1])
        =>   T2: f32[i83, i4, i64, i1152] = reshape(T0);  T1 = sum(sum(T2, dims=[2]), dims=[1])
    T2: f32[i37, i581, i3072] = pad(T0);  T3: f32[i37, i7, i83, i3072] = reshape(T2)    of 577 each

So are those of short rows, in runs that a block walks at once: in as many parts as leave little of
the machine idle behind them, or one of each of many samples. The last run may have fewer rows:

    T1: f32[i3548, i224, i96] = pad(T0);  T2: f32[i3548, i7, i32, i96] = reshape(T1)    of 197 each

A sum that rows of the plane wait for is no sum beside them, and stays. So does one whose columns
are read again in any case: by a reduction with more than one number of state, or to be kept for
what is stored behind them.

Sums, products and extrema are associative, so the result differs by the order of rounding only, and
that order is fixed. The parts are summed in the accumulator's type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import gcd, prod

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.kept_rows import kept_columns
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.analysis.reductions import (
    MAX_SHORT_REDUCTION,
    WALKED,
    column_shape,
    is_down,
    is_long,
    is_summed,
    needed_by_rows,
    plane_of,
    row_shape,
    walked_rows,
)
from thunder_fuser.analysis.short_rows import (
    THREADS,
    Share,
    is_much,
    is_short,
    share_beside,
    share_of,
    shifted_vectors,
    threads_beside,
    threads_of_row,
)
from thunder_fuser.analysis.short_rows import rows_at_once as rows_side_by_side
from thunder_fuser.analysis.walked_rows import (
    WalkedRow,
    blocks_of_row,
    groups_of_rows,
    is_busy,
    rows_at_once,
    walked_row,
)
from thunder_fuser.ir.build import call, produce
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.presegment.stages import padded, reduced, reshaped, widened
from thunder_fuser.target import Target

MIN_TERMS = 256  # of a column, below which one pass is as good, if one block has a row
SHORT_THREADS = 512  # of short rows: registers hold the loads of four, which so come at once
MIN_TURNS = 16  # rows of a block or a cluster, whose sums cost as much as a row or two
MIN_SHIFTED = 4  # vectors of a row of odd length, below which most of it is first and last ones
MIN_SHORT_ROWS = 64  # of a block: fewer have not been measured
MANY_SAMPLES = 2  # turns of the machine: what more of them leave idle takes as long as the launch
# that sums parts
MIN_VECTORS = 64  # of a row, below which most threads of the smallest block would have none
IDLE = 4  # blocks, of which one may have no rows where that gives the others as many each: by 200
# of 264 they were walked 4 % sooner than by all of them unevenly


@dataclass(frozen=True)
class Deal:
    """Rows in so many `parts`, a `run` of them at a time: neighbours, or as far `apart` from each
    other as there are parts."""

    parts: int
    run: int = 1
    is_apart: bool = False

    def sizes(self, terms: int) -> tuple[int, ...]:
        """Turns, parts and runs, in the order of rows, of at least so many `terms`."""
        turns = ceil_div(terms, self.parts * self.run)
        if self.run == 1:
            return turns, self.parts
        inner = (self.run, self.parts) if self.is_apart else (self.parts, self.run)
        return turns, *inner

    @property
    def rows_at_once(self) -> int:
        return self.parts * self.run


def split_reductions(fusion: Fusion, target: Target) -> Fusion:
    """`fusion` with such sums in two stages. Inputs stay the same tensors."""
    along = [tv for tv in fusion.tensors if is_long(tv) and row_shape(tv)]
    ahead = needed_by_rows(along)
    down = [tv for tv in fusion.tensors if is_summed(tv)]
    count = Counter(map(plane_of, down))
    even = {plane_of(tv) for tv in down if tv.expr.op.neutral is None}
    is_kept = kept_columns(fusion, target.max_cluster)
    unfinished = {_operands(tv) for tv in fusion.tensors if is_down(tv) and not is_summed(tv)}

    @cache
    def row_of(plane: tuple[int, int] | None) -> WalkedRow:
        return walked_row(plane, fusion, count[plane])

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        plane = plane_of(tv)
        if plane not in ahead or tv in ahead[plane] or not is_summed(tv):  # else rows wait for it
            return None
        if is_kept(tv) or _operands(tv) in unfinished:  # a kernel of columns reads it anyway
            return None
        row = row_of(plane)
        if (samples := _samples(tv)) is not None:
            is_even = plane in even
            deal = _of_samples(*samples, row, is_even, target)
            return None if deal is None else _in_samples(tv, inputs[0], deal)
        found = _dealt(tv, row, plane in even, target)
        return None if found is None else in_two(tv, inputs[0], found)

    return rewrite(fusion, rule)


def _operands(tv: TensorView) -> tuple[object, ...]:
    """What a reduction is of, and over which dims."""
    return *tv.expr.inputs, tv.expr.attr("dims")


def _samples(tv: TensorView) -> tuple[int, int] | None:
    """How many samples there are, and the rows of each that are summed; None for other sums, and
    for those of parts already."""
    axes = tv.domain.logical
    reduced = [k for k, a in enumerate(axes) if a.is_reduction]
    between = axes[reduced[0] : reduced[-1]]
    is_scattered = any(a.size != 1 and not a.is_reduction for a in between)
    if reduced[0] == 0 or is_scattered or walked_rows(tv) is not None:
        return None
    return prod(a.size for a in axes[: reduced[0]]), prod(axes[k].size for k in reduced)


def _of_samples(
    samples: int,
    terms: int,
    row: WalkedRow,
    is_even: bool,
    target: Target,
) -> Deal | None:
    """How the rows of each sample are dealt out, in runs of short ones that a block walks at once,
    or in as many parts as blocks walk at a time, of which the last may have fewer rows.
    The sums of parts are read again, by every element of the result. Where `is_even` all have as
    many."""
    if is_much(samples * terms * row.columns, target.multiprocessors):
        for rows, several in _short_runs(terms, row, row.is_plain and target.copies_stretches):
            at_once = several * target.multiprocessors
            found = _samples_in_runs(samples, terms, row, rows, at_once, is_even)
            if found is not None and is_busy(samples * found.parts, target.multiprocessors):
                return found
    blocks = blocks_of_row(row, target.max_cluster)
    is_large = row.is_worth_a_walk(samples * terms, target.multiprocessors)
    if blocks is None or row.vectors < MIN_VECTORS or not is_large:
        return None
    wanted = rows_at_once(row, blocks, target.multiprocessors) // samples
    limit = min(wanted, terms // MIN_TURNS, MAX_SHORT_REDUCTION)
    parts = _parts(terms, limit, 1, is_even) if limit > 1 else None
    return None if parts is None else Deal(parts)


def _short_runs(terms: int, row: WalkedRow, is_staged: bool) -> Iterator[tuple[int, int]]:
    """How many of a sample's short rows a block may walk at once, and blocks of a multiprocessor:
    in a stretch, if the next sample begins with a vector, else side by side, in whole vectors."""
    share = share_of(row.columns, MAX_ALIGNMENT // row.lanes) if is_staged else None
    if share is not None and (terms % share.rows == 0 or row.columns % row.lanes == 0):
        yield share.rows, share.blocks
    vectors, rest = divmod(row.columns, row.lanes)
    if not rest and is_short(vectors):
        yield THREADS // threads_of_row(vectors), SHORT_THREADS // THREADS


def _samples_in_runs(
    samples: int, terms: int, row: WalkedRow, rows: int, at_once: int, is_even: bool
) -> Deal | None:
    """The same for short rows, in runs of so many `rows`, of which the last may have fewer."""
    runs, rest = ceil_div(terms, rows), terms % rows
    if rest and is_even:
        return None
    most = min(terms // MIN_SHORT_ROWS, MAX_SHORT_REDUCTION)
    most = min(most, 1) if samples >= MANY_SAMPLES * at_once else most
    parts = [n for n in range(1, most + 1) if ceil_div(runs, ceil_div(runs, n)) == n]
    allowed = (samples * n for n in parts if rest or runs % n == 0)
    groups = groups_of_rows(row, samples * terms, at_once, allowed, rows)
    return None if groups is None else Deal(groups // samples, rows)


def _in_samples(tv: TensorView, source: Value, deal: Deal) -> TensorView:
    """`tv` of what each of the parts of a sample sums, one after another."""
    source = widened(tv, source)
    axes = tv.domain.logical
    first = next(k for k, a in enumerate(axes) if a.is_reduction)
    terms = prod(a.size for a in axes if a.is_reduction)
    kept = [a.size for a in axes if not a.is_reduction]
    parts, run = ([n] if n > 1 else [] for n in (deal.parts, deal.run))
    dealt = [*parts, ceil_div(terms, deal.rows_at_once), *run]
    rest = prod(dealt) - terms
    if rest:
        whole = reshaped(source, [*kept[:first], terms, *kept[first:]])
        source = padded(tv, whole, rest, first)
    pieces = reshaped(source, [*kept[:first], *dealt, *kept[first:]])
    dims = tuple(range(first + len(parts), first + len(dealt)))
    walked = produce(tv.expr.op, [pieces], {"dims": dims, WALKED: prod(kept[:first]) * terms})
    return reduced(tv, walked, (first,)) if parts else reduced(tv, walked)


def _dealt(
    tv: TensorView,
    row: WalkedRow,
    is_even: bool,
    target: Target,
) -> Deal | None:
    """How one of the sums down the columns of such rows is dealt out, to as many parts as are
    walked at a time; None to leave it. Where `is_even` all parts have as many rows."""
    reduced = [a.is_reduction for a in tv.domain.logical]
    down = column_shape(tv)
    is_leading = reduced == sorted(reduced, reverse=True)
    if down is None or not is_leading:
        return None
    terms, columns = down
    are_many = terms >= MIN_TERMS
    whole = gcd(columns, row.lanes)
    vectors = columns // whole
    is_long_walk = are_many and is_much(terms * columns, target.multiprocessors)
    period = row.lanes // whole  # of so many rows one begins with a vector
    shifted = shifted_vectors(columns, row.lanes)
    found = None
    if is_long_walk and not is_even and row.is_plain and target.copies_stretches:
        share = share_beside(columns, MAX_ALIGNMENT // row.lanes, row.is_stored)
        found = in_stretches(terms, share, target)
    is_apart = period > 1 and is_short(shifted) and columns >= MIN_SHIFTED * row.lanes
    if found is None and is_apart and row.is_plain and is_long_walk:
        found = _shifted(terms, shifted, row.sums, period, is_even, target)
    if found is None and is_short(vectors) and is_long_walk:
        found = _side_by_side(terms, vectors, is_even, target)
    if found is not None:
        return found
    blocks = blocks_of_row(row, target.max_cluster)
    is_large = row.is_worth_a_walk(terms, target.multiprocessors)
    if row.vectors < MIN_VECTORS or blocks is None or not is_large:
        return None
    if blocks == 1 and not are_many:
        return None
    is_even = is_even or is_short(vectors)  # what comes side by side is all there or none of it
    most = terms // MIN_TURNS
    if blocks == 1:
        limit = min(rows_at_once(row, blocks, target.multiprocessors), most)
        parts = _parts(terms, limit, period, is_even)
    else:
        at_once = rows_at_once(row, blocks, target.multiprocessors)
        allowed = (n for n in range(period, most + 1, period) if not (is_even and terms % n))
        parts = groups_of_rows(row, terms, at_once, allowed)
    if parts is None or not is_busy(parts * blocks, target.multiprocessors):
        return None
    return Deal(parts)


def _side_by_side(terms: int, vectors: int, is_even: bool, target: Target) -> Deal | None:
    """Of short rows, the neighbours that a block walks at once: so that most threads have one, of
    as many as there can be on the machine at a time."""
    threads = threads_of_row(vectors)
    walking, most = SHORT_THREADS * target.multiprocessors, terms // MIN_SHORT_ROWS

    def dealt(count: int, rows: int) -> Deal | None:
        limit = min(walking // (threads * count), most)
        parts = _parts(rows, limit, 1, is_even) if limit > 1 else None
        return Deal(parts, count) if parts and is_busy(parts, target.multiprocessors) else None

    counts = rows_side_by_side(threads, terms)
    found = [deal for n in counts if (deal := dealt(n, terms // n))]
    even = max(found, key=lambda deal: (deal.rows_at_once, deal.run), default=None)
    full = THREADS // threads
    return even if is_even else _fuller(even, dealt(full, ceil_div(terms, full)))


def _shifted(
    terms: int, vectors: int, sums: int, period: int, is_even: bool, target: Target
) -> Deal | None:
    """Of short rows of odd length, those that begin in the same lane: a multiple of `period` rows
    apart."""
    threads = threads_beside(vectors, sums)
    if threads is None:
        return None
    blocks, most = SHORT_THREADS * target.multiprocessors // THREADS, terms // MIN_SHORT_ROWS

    def dealt(parts: int | None, counts: Sequence[int]) -> Deal | None:
        if not parts or not counts or not is_busy(parts, target.multiprocessors):
            return None
        return Deal(parts, counts[0], is_apart=True)

    parts = _divisor(terms, min(blocks, most), period)
    even = dealt(parts, rows_side_by_side(threads, terms // parts) if parts else ())
    full, limit = THREADS // threads, min(blocks, most)
    if is_even or limit < period:
        return even
    return _fuller(even, dealt(_parts(ceil_div(terms, full), limit, period, False), [full]))


def _fuller(even: Deal | None, uneven: Deal | None) -> Deal | None:
    """The even one, unless it leaves too many of the rows out that the machine could have."""
    if even is None or uneven is None:
        return even or uneven
    return even if even.rows_at_once * IDLE >= uneven.rows_at_once * (IDLE - 1) else uneven


def _parts(terms: int, limit: int, period: int, is_even: bool) -> int | None:
    """Of a column of so many terms, a multiple of `period` where that can be: a divisor, unless
    that leaves too many of the `limit` blocks without one. Then as few as have no more turns."""
    even = _divisor(terms, limit, period)
    if is_even or limit < period:
        return even or _divisor(terms, limit, 1)
    if even is not None and even >= ceil_div(limit, IDLE) * (IDLE - 1):
        return even
    turns = ceil_div(terms, limit - limit % period)
    return ceil_div(ceil_div(terms, turns), period) * period


def _divisor(size: int, limit: int, factor: int) -> int | None:
    """The largest divisor of `size` that is a multiple of `factor`, from a quarter of `limit` to
    all of it, else None."""
    least, most = max(limit // 4, 2), limit - limit % factor
    return next((d for d in range(most, least - 1, -factor) if size % d == 0), None)


def in_stretches(terms: int, share: Share | None, target: Target) -> Deal | None:
    """Of short rows of which a thread has such a share, the neighbours that pass through a block's
    shared memory at once, where there is an engine for that: GPUs with clusters have it."""
    if share is None:
        return None
    runs, most = ceil_div(terms, share.rows), terms // MIN_SHORT_ROWS
    limit = min(share.blocks * target.multiprocessors, most)
    if not is_busy(limit, target.multiprocessors):
        return None
    return Deal(ceil_div(runs, ceil_div(runs, limit)), share.rows)


def in_two(tv: TensorView, source: Value, deal: Deal) -> TensorView:
    """`tv` of what each part sums, which are dealt the rows of `source`, with some that were added
    to them."""
    terms = prod(a.size for a in tv.domain.logical if a.is_reduction)
    kept = [a.size for a in tv.domain.logical if not a.is_reduction]
    return reduced(tv, in_parts(tv, source, deal, terms, kept), (0,))


def in_parts(
    tv: TensorView, source: Value, deal: Deal, terms: int, kept: Sequence[int]
) -> TensorView:
    """What each part sums of a plane of so many `terms`, of columns of the sizes `kept`."""
    source = widened(tv, source)
    held = prod(source.shape) // prod(kept)
    sizes = deal.sizes(held)
    rest = prod(sizes) - held
    if rest:
        source = padded(tv, reshaped(source, [held, *kept]), rest)
    pieces = reshaped(source, [*sizes, *kept])
    part = len(sizes) - 1 if deal.is_apart else 1
    dealt, columns = range(len(sizes)), range(len(sizes), pieces.ndim)
    order = (part, *(d for d in dealt if d != part), *columns)
    mine = call("permute", pieces, dims=order)
    return produce(tv.expr.op, [mine], {"dims": tuple(dealt[1:]), WALKED: terms})
