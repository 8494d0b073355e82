"""Short rows of odd length that pass through shared memory, so that memory sees whole vectors.

    32 rows of 49 in 16 bits      196 vectors of 16 bytes, in which no row but the first is aligned

A block copies what it reads of its rows as one stretch, its threads take the elements of their row
out of that, and what they store goes the same way back. What repeats from image to image, such as a
row of bias, is a stretch too. Of a vector in which the plane ends the elements are moved alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from thunder_fuser.analysis.access import Index
from thunder_fuser.analysis.digits import Form, divmod_form
from thunder_fuser.analysis.layout import MAX_ALIGNMENT, bytes_of, dense_strides, offset_of
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.row_axes import RowAxes, is_of_row
from thunder_fuser.segment.segment import Segment, Store

Reads = Sequence[tuple[TensorView, Form]]
Stores = Sequence[tuple[Store, Index]]

MAX_ROW = 128  # bytes, a line of memory: layer norm of 129 columns in 16 bits was 9 % slower so
CRUMB = 16  # bytes: of less at a time of each row a store of a warp fills parts of eight sectors
MAX_STAGED = 384  # bytes of shared memory for each thread, of which as many are on a multiprocessor
# as hide what they wait for


def is_staged(
    segment: Segment, axes: RowAxes, count: int, threads: int, reads: Reads, full: Stores
) -> bool:
    """True where `count` rows of a block, of so many `threads` each, lie element by element as in
    the plane in all that it reads of them, at `reads`, and stores, and are short and odd, or would
    be stored in crumbs, as rows of which many meet."""
    widths = [tv.dtype.itemsize for tv, offset in reads if is_of_row(offset, axes)]
    if axes.is_shifted or count == 1 or not widths:
        return False
    moved = moved_rows(segment, axes, reads, full)
    size = count * axes.columns * bytes_of(dict(moved))
    widest, at_once = max(widths), threads * axes.lanes
    is_short = axes.lanes == 1 and min(widths) < 4 and widest * axes.columns <= MAX_ROW
    is_in_crumbs = at_once < axes.columns and at_once * widest < CRUMB and bool(full)
    return (
        (is_short or is_in_crumbs)
        and size <= MAX_STAGED * count * threads
        and all(lies_in_plane(segment, axes, *m) for m in moved)
    )


def moved_rows(
    segment: Segment, axes: RowAxes, reads: Reads, full: Stores
) -> list[tuple[TensorView, Form]]:
    """What is read and stored of whole rows, and where it lies."""
    taken = [(tv, offset) for tv, offset in reads if is_of_row(offset, axes)]
    return [*taken, *((s.target, offset_of(segment.layouts[s.target], i)) for s, i in full)]


def lies_in_plane(segment: Segment, axes: RowAxes, tv: TensorView, offset: Form) -> bool:
    """True for a tensor whose rows lie one behind the other as those of the plane do."""
    layout, elements = segment.layouts[tv], prod(tv.shape)
    is_dense = layout.strides == dense_strides(tv.shape) and layout.alignment == MAX_ALIGNMENT
    whole = axes.rows * axes.columns
    if whole % elements or not is_dense:
        return False
    if elements == whole:
        return offset == axes.flat
    return elements % lanes_of(tv) == 0 and offset == divmod_form(axes.flat, elements)[1]


def lanes_of(tv: TensorView) -> int:
    """Elements of a vector of a stretch."""
    return MAX_ALIGNMENT // tv.dtype.itemsize
