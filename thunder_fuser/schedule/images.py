"""Images that a block keeps as a whole, or a cluster of blocks each with some of its rows.

    T0[i, r, c]   512 channels r of 14 x 14 places c, 16 bits: rows of 392 bytes, images of 200 KB

The columns of an image are its places. A tile of a line of each row would read a sector or two more
of every row, in pieces that lie apart; all rows of an image are one run of memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.analysis.digits import Form, add, atom, divmod_form, scale
from thunder_fuser.schedule.columns import ColumnAxes


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
