"""T2 for short odd rows of which nothing is reduced, with what each row has one of.

    gradient of a cross entropy of 34 classes, bf16     2 threads a row, 128 rows a turn
    of a largest element of 63                          4 threads a row, 64 rows a turn

As one axis of aligned vectors such rows would have each lane divide to find its row and load what
that has one of: a target, a maximum, a sum, which is three loads of an element for each of eight
lanes, and 27 instructions for each element of 16 bits, as many as there is time for. Blocks walk
them in stretches instead (`schedule/stretches.py`): a thread has its row's, and divides nothing.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from thunder_fuser.analysis.digits import loads_in
from thunder_fuser.schedule.down_columns import columns_of
from thunder_fuser.schedule.parameters import RowParameters
from thunder_fuser.schedule.rejected import Rejected, rejecting
from thunder_fuser.schedule.residency import PREFERRED
from thunder_fuser.schedule.row_axes import row_axes
from thunder_fuser.schedule.row_reads import reads_of, row_read
from thunder_fuser.schedule.row_schedule import RowSchedule
from thunder_fuser.schedule.rows import placed, work_along
from thunder_fuser.schedule.stretches import alone_in_stretches, of_stretches
from thunder_fuser.segment.segment import Segment
from thunder_fuser.target import BANK, Target


def schedule_plain(
    segment: Segment, target: Target, parameters: RowParameters = PREFERRED
) -> RowSchedule:
    """Axes and threads. Raises Rejected."""
    shape = _plane(segment)
    rows = row_axes(segment, (), shape, 1, shape[0])
    axes = alone_in_stretches(segment, (), rows, target)
    if axes is None:
        raise Rejected("rows that are whole vectors, long, or few")
    axes = replace(axes, ends=axes.ends or parameters.ends)
    work = work_along(segment, axes, columns_of(segment, (), axes), (), ())
    reads = reads_of(work, work.whole)
    found = of_stretches(work, reads, target, parameters)
    if found is None or any(loads_in(form for _, form in reads)):
        raise Rejected("rows that lie otherwise, or at loaded places")
    if len(found.gathered) <= sum(prod(tv.shape) == prod(shape) for tv in found.registers):
        raise Rejected("no more of what rows have one of than whole vectors")
    return placed(work, row_read(work), found, axes.sides, is_staged=True)


reject_plain = rejecting(schedule_plain)


def _plane(segment: Segment) -> tuple[int, int]:
    """Rows and columns of all that is stored, of dims that something else has all of. Words are
    left to vectors, which have half as many lanes. Raises Rejected."""
    shapes = {store.value.shape for store in segment.written}
    if any(store.value.dtype.itemsize >= BANK for store in segment.written):
        raise Rejected("words")
    shape = shapes.pop() if len(shapes) == 1 else ()
    counts = {prod(tv.shape) for tv in segment.inputs}
    cuts = [n for n in range(1, len(shape)) if prod(shape[:n]) in counts]
    is_reduced = any(a.is_reduction for tv in segment.tensors for a in tv.domain.logical)
    if not cuts or is_reduced or segment.long:
        raise Rejected("nothing that rows have one of, or something that is reduced or summed up")
    return prod(shape[: cuts[-1]]), prod(shape[cuts[-1] :])
