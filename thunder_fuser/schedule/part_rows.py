"""Odd rows that are parts of others, in the vectors in which these are aligned.

    T1[b, t] = sum(T0[b, t, c]), t < 334 of 335      row 334 begins at place 335 * columns of T0

As rows of a plane they would begin in other lanes, and each vector be put together of two: so are
the logits of all tokens but the last, and an odd half of each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd, prod

from thunder_fuser.analysis.access import Element
from thunder_fuser.analysis.digits import Form, add, divmod_form, scale
from thunder_fuser.analysis.layout import MAX_ALIGNMENT, offset_of
from thunder_fuser.schedule.needs import needs_of
from thunder_fuser.schedule.row_axes import RowAxes
from thunder_fuser.segment.segment import Segment


def of_parts(segment: Segment, axes: RowAxes, results: Sequence[Element]) -> RowAxes:
    """Shifted axes in the vectors of what `results` read, if all of that begins in the same places.
    Not where something has the plane's own, nor where a vector would reach behind memory."""
    moved = (*segment.inputs, *(s.target for s in segment.stores))
    plane = axes.rows * axes.columns
    if not axes.is_shifted or any(prod(tv.shape) == plane for tv in moved):
        return axes
    leaves = needs_of(segment, segment.long, results).leaves
    read = [(segment.layouts[tv], i) for tv, i in leaves if tv in segment.leaves]
    offsets = [(layout, offset_of(layout, index)) for layout, index in read]
    rows = [(layout, offset) for layout, offset in offsets if axes.vector in offset.bases]
    starts = {add(offset, scale(axes.column, -1)) for _, offset in rows}
    if len(starts) != 1:
        return axes
    start = starts.pop()
    _, beside = divmod_form(start, gcd(axes.columns, axes.lanes))
    reach = start.bounds[1] + axes.vector.size * axes.lanes
    is_inside = all(
        layout.is_dense and layout.alignment == MAX_ALIGNMENT and reach <= layout.numel
        for layout, _ in rows
    )
    if start.bases & axes.bases or beside != Form() or not is_inside:
        return axes
    return replace(axes, begin_at=start, ends=False)
