"""T3, the streaming template: a sum of exp(x - max(x)) in the pass that finds the maximum.

    T1[r] = max(T0[r, :])       each thread keeps a maximum so far, and a sum below it, which it
    T3[r] = sum(exp(T0 - T1))   scales by exp(old - new) where the maximum grows

The scaling of partial sums is that of Milakov and Gimelshein, Online normalizer calculation for
softmax (arXiv:1805.02867). A row is read once where nothing but numbers per row are stored, so that
long rows need no registers; with stores of whole rows it is read twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from thunder_fuser.analysis.precision import distance_from_max
from thunder_fuser.schedule import rows
from thunder_fuser.schedule.parameters import RowParameters, StreamParameters
from thunder_fuser.schedule.rejected import Rejected, rejecting
from thunder_fuser.schedule.residency import Residency
from thunder_fuser.schedule.row_schedule import RowSchedule
from thunder_fuser.segment.segment import Segment
from thunder_fuser.target import MAX_THREADS, Target

SHAPES = ((256, 4), (512, 2))  # threads of one row, and the vectors that each has in flight
FEW_ROWS = 512  # below it a row gets a whole block's threads, to fill the multiprocessors
CHUNK = 4  # vectors that each of those has in flight
LAST = 0.5  # of a turn of the machine takes a part of it that is smaller: too little is in flight
MIN_VECTORS = 2048  # of a row: below, the row template keeps the row
PREFERRED = StreamParameters()


@dataclass(frozen=True, eq=False)
class StreamSchedule:
    """`rows` has two phases: of the maximum, and of sums below it."""

    rows: RowSchedule
    chunk: int  # vectors that a thread has in flight

    @property
    def segment(self) -> Segment:
        return self.rows.segment

    def __str__(self) -> str:
        head, *lines = str(self.rows).splitlines()
        return "\n".join([f"stream of {head}, {self.chunk} vectors at a time", *lines])


def schedule(
    segment: Segment, target: Target, parameters: StreamParameters = PREFERRED
) -> StreamSchedule:
    """The row template's phases, walked together. Raises Rejected."""
    planned = rows.schedule(segment, target, RowParameters(ends=parameters.ends))
    if len(planned.phases) != 2 or planned.columns.reductions:
        raise Rejected("not two phases of reductions along rows")
    first, second = planned.phases
    tops = [tv for tv, _ in first.reductions if tv.is_of("max")]
    below = [distance_from_max(term) for term, _ in second.terms]
    is_sum = all(tv.is_of("sum") for tv, _ in second.reductions)
    if len(tops) != 1 or not is_sum or any(found is not tops[0] for found in below):
        raise Rejected("the second phase is not sums of exp(x - max(x))")
    if planned.axes.vector.size < MIN_VECTORS:
        raise Rejected("rows that the registers hold")
    found = planned.residency
    if planned.full and (found.registers or found.shared):
        raise Rejected("whole rows are stored, and the multiprocessor holds them")
    threads, chunk = _shape(planned.axes.group.size, target)
    threads = parameters.threads or threads
    residency = Residency(threads, registers=frozenset(planned.row.loads))  # of a chunk
    axes = replace(planned.axes, has_edges=False)
    walked = replace(planned, axes=axes, residency=residency, rows_per_block=1)
    return StreamSchedule(walked, parameters.chunk or chunk)


reject = rejecting(schedule)


def _shape(rows: int, target: Target) -> tuple[int, int]:
    """Threads of one of so many rows, and vectors that each has in flight: those of which the last
    turn of the machine takes the least."""

    def turns(shape: tuple[int, int]) -> float:
        fitting = target.threads_per_multiprocessor // shape[0]
        whole, rest = divmod(rows, fitting * target.multiprocessors)
        last = rest / (fitting * target.multiprocessors)
        return fitting * (whole + (max(last, LAST) if rest else 0))

    return (MAX_THREADS, CHUNK) if rows < FEW_ROWS else min(SHAPES, key=turns)
