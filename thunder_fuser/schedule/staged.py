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
MAX_STAGED = 24 * 1024  # bytes of a block's shared memory, of which several are on a multiprocessor


def is_staged(segment: Segment, axes: RowAxes, count: int, reads: Reads, full: Stores) -> bool:
    """True where `count` rows of a block are whole vectors of all that it reads of them, at
    `reads`, and stores, and lie there element by element as in the plane."""
    if axes.lanes > 1 or axes.is_shifted or count == 1:
        return False
    moved = moved_rows(segment, axes, reads, full)
    size = count * axes.columns * bytes_of(dict(moved))
    widths = [tv.dtype.itemsize for tv, offset in reads if is_of_row(offset, axes)]
    is_narrow = min(widths, default=4) < 4 and max(widths) * axes.columns <= MAX_ROW
    return (
        is_narrow
        and size <= MAX_STAGED
        and all(lies_in_plane(segment, axes, count, *m) for m in moved)
    )


def moved_rows(
    segment: Segment, axes: RowAxes, reads: Reads, full: Stores
) -> list[tuple[TensorView, Form]]:
    """What is read and stored of whole rows, and where it lies."""
    taken = [(tv, offset) for tv, offset in reads if is_of_row(offset, axes)]
    return [*taken, *((s.target, offset_of(segment.layouts[s.target], i)) for s, i in full)]


def lies_in_plane(
    segment: Segment, axes: RowAxes, count: int, tv: TensorView, offset: Form
) -> bool:
    """True for a tensor whose rows lie one behind the other as those of the plane do, of which
    `count` fill vectors."""
    layout, elements = segment.layouts[tv], prod(tv.shape)
    lanes = MAX_ALIGNMENT // tv.dtype.itemsize
    is_dense = layout.strides == dense_strides(tv.shape) and layout.alignment == MAX_ALIGNMENT
    whole = axes.rows * axes.columns
    repeated = elements if elements != whole else 0
    fills = all(size % lanes == 0 for size in (count * axes.columns, repeated))
    in_plane = axes.flat if elements == whole else divmod_form(axes.flat, elements)[1]
    return is_dense and fills and whole % elements == 0 and offset == in_plane
