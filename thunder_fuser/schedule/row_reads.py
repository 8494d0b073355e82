"""What the walks along a row read, and how much of it a multiprocessor would have to hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

from thunder_fuser.analysis.access import Demand, Element
from thunder_fuser.analysis.digits import Form, loads_in
from thunder_fuser.analysis.held import computed_again, is_costly
from thunder_fuser.analysis.layout import offset_of, registers_of
from thunder_fuser.analysis.reductions import state_bytes
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.needs import needs_of
from thunder_fuser.schedule.residency import Row, scanned_registers
from thunder_fuser.schedule.row_axes import RowAxes, is_of_all_rows, is_of_row
from thunder_fuser.schedule.row_schedule import RowWork
from thunder_fuser.schedule.staged import Reads

SMALL = 8  # times smaller than the plane is what the L2 cache has: no row keeps it for a single use
COPIED = 4  # bytes of the least that is copied in the background
MANY_WALKS = 3  # from which on threads have few vectors, to leave values for each other
TINY = 32 * 1024  # bytes, which the L1 cache has for more


def row_read(work: RowWork) -> Row:
    """A row as the walks along it read it."""
    axes, sums = work.axes, work.columns.terms
    terms, last = [t for p in work.phases for t in p.terms], work.whole
    walks = [phase.terms for phase in work.phases] + ([(*last, *sums)] if last else [])
    loads: dict[TensorView, int] = {}
    weights: dict[tuple[TensorView, Form], int] = {}
    results = [*terms, *last, *sums]
    times = Counter(tv for walk in walks for tv in dict(reads_of(work, walk)))
    for tv, offset in reads_of(work, results):
        registers = registers_of([tv.dtype.itemsize], axes.lanes)
        if is_of_row(offset, axes) and not _is_cached(tv, times[tv], axes):
            loads[tv] = loads.get(tv, 0) + registers
        elif is_of_all_rows(offset, axes):
            weights[tv, offset] = registers
    waited = _once(reads_of(work, terms), axes)
    late = _once(reads_of(work, [*last, *sums]), axes)
    return Row(
        axes.vector.size,
        axes.lanes,
        loads,
        scanned_registers(work.scans, axes.lanes),
        walks=len(work.phases) + bool(last),
        is_stored=bool(last),
        again=frozenset(tv for tv in loads if times[tv] > 1),
        weights=sum(weights.values()),
        is_sent=all(tv.expr.op.state_size == 1 for tv in work.reduced),
        is_shifted=axes.is_shifted,
        states=sum(map(state_bytes, work.reduced)),
        count=axes.rows,
        left=axes.lanes * _left(work, walks),
        waited=waited,
        late={tv: size for tv, size in late.items() if tv not in waited and size >= COPIED},
    )


def _left(work: RowWork, walks: Sequence[Sequence[Element]]) -> int:
    """Values of each element that walks compute alike by exact functions of what they read, if
    they are three: twice as many threads have a row for it, and what each does for a row whatever
    its length takes as many instructions an element as a logistic function."""
    segment, vector = work.segment, work.axes.vector

    def needs(results: Sequence[Element]) -> Demand:
        return needs_of(segment, work.reduced, results)

    exact = {tv for tv in segment.tensors if is_costly(tv)} - segment.fast
    if len(walks) < MANY_WALKS or not exact:
        return 0
    found = computed_again([(w, needs(w)) for w in walks], set(work.reduced))
    own = (alike[:1] for alike in found if any(vector in form.bases for form in alike[0][1]))
    return sum(any(tv in exact for tv, _ in needs(value).elements) for value in own)


def reads_of(work: RowWork, results: Sequence[Element]) -> list[tuple[TensorView, Form]]:
    """What `results` read of memory, and where."""
    found = needs_of(work.segment, work.reduced, results).leaves
    layouts = work.segment.layouts
    return [(tv, offset_of(layouts[tv], i)) for tv, i in found if tv not in work.reduced]


def _is_cached(tv: TensorView, times: int, axes: RowAxes) -> bool:
    """True for what many rows share, such as the weights of a group norm's channels, so that it
    comes from a cache in each walk that needs it."""
    size = prod(tv.shape)
    is_small = SMALL * size <= axes.rows * axes.columns
    return is_small and (times < 2 or size * tv.dtype.itemsize <= TINY)


def _once(reads: Reads, axes: RowAxes) -> dict[TensorView, int]:
    """The bytes of each tensor that is read once a row, at no loaded index."""
    found: dict[TensorView, int] = {}
    for tv, offset in reads:
        is_once = axes.turn in offset.bases and offset.bases.isdisjoint(axes.bases)
        if is_once and not any(loads_in((offset,))):
            found[tv] = found.get(tv, 0) + tv.dtype.itemsize
    return found
