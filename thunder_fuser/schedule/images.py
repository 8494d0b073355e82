"""Images that a block keeps as a whole, or a cluster of blocks each with some of its rows.

    T0[i, r, c]   512 channels r of 14 x 14 places c, 16 bits: rows of 392 bytes, images of 200 KB

The columns of an image are its places. A tile of a line of each row would read a sector or two more
of every row, in pieces that lie apart; all rows of an image are one run of memory. What is stored
of a plane may take the place of what is read of one in shared memory, element by element.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from thunder_fuser.analysis.access import Index
from thunder_fuser.analysis.digits import Form, add, atom, divmod_form, scale
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.columns import ColumnAxes
from thunder_fuser.segment.segment import Segment, Store


def vectors_of_row(offsets: Sequence[Form], axes: ColumnAxes) -> int | None:
    """Vectors of a row of an image, where all these `offsets` lie in planes of images, row after
    row; else None."""
    if not offsets:
        return None
    steps = [weight for weight, digit in offsets[0].terms if digit.base is axes.row]
    size = axes.vector.size * axes.lanes
    if len(steps) != 1 or steps[0] % axes.lanes or size % max(steps[0], 1):
        return None
    vectors = steps[0] // axes.lanes
    image, place = divmod_form(atom(axes.vector), vectors)
    own = scale(place, axes.lanes)
    if axes.lane is not None:
        own = add(own, atom(axes.lane))
    rows = add(scale(image, axes.row.size), atom(axes.row))
    lies = add(scale(rows, steps[0]), own)
    return vectors if all(offset == lies for offset in offsets) else None


def slot_sizes(
    segment: Segment, reads: Sequence[TensorView], stores: Sequence[tuple[Store, Index]]
) -> tuple[int, ...]:
    """Bytes of an element of each plane that is read, where every one that is stored finds the slot
    of one of its type, and all begin at whole accesses; else none."""
    layouts = segment.layouts
    made = {(store.value, store.target.dtype, index) for store, index in stores}
    moved = (*reads, *(store.target for store, _ in stores))
    if Counter(dtype for _, dtype, _ in made) - Counter(tv.dtype for tv in reads):
        return ()
    if any(layouts[tv].alignment < MAX_ALIGNMENT for tv in moved):
        return ()
    return tuple(tv.dtype.itemsize for tv in reads)
