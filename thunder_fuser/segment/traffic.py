"""The bytes that a segment moves, each element of its tensors once.

A kernel that reads a part of a tensor is charged for that part; torch, which runs a segment op by
op, for all of it.
"""

from __future__ import annotations

from thunder_fuser.analysis.footprint import elements_read
from thunder_fuser.segment.segment import Segment


def bytes_read(segment: Segment) -> int:
    """An expanded axis counts as one element."""
    if segment.is_opaque:
        return sum(segment.layouts[tv].distinct * tv.dtype.itemsize for tv in segment.inputs)
    values = [store.value for store in segment.stores]
    found = elements_read(values, segment.leaves, segment.layouts)
    return sum(count * tv.dtype.itemsize for tv, count in found.items())


def bytes_written(segment: Segment) -> int:
    """Of what it stores."""
    targets = [store.target for store in segment.stores]
    return sum(segment.layouts[tv].distinct * tv.dtype.itemsize for tv in targets)
