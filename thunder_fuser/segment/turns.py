"""Which launches walk memory from its end, because the one before stopped there.

    statistics of T0, 205 MB    first to last: the last 30 MB or so are in the cache behind it
    T0 normalised               last to first: finds those; in the same order it would find none

What a launch reads or writes last is still in the cache when the next one starts. That one walks
the other way where both touch much, and the launch after it this way again. Its text says so: a
segment that comes second in its plan does so in every equal layer, so that hardly a kernel is
compiled for both ways, and none computes at run time which way it goes.
"""

from __future__ import annotations

from dataclasses import replace

from thunder_fuser.analysis.reductions import row_shape
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.segment.segment import Segment
from thunder_fuser.segment.segmented import SegmentedFusion

LEFT = 2  # of the cache one part in so many is sure to hold what was touched last
SMALL = 4  # a launch that touches less than one part in so many changes little of that


def turned(segmented: SegmentedFusion, l2_bytes: int) -> SegmentedFusion:
    """The same segments, some from the end of memory, for a cache of so many bytes; without one all
    as they are. What the next launch reads is `handed_on`."""
    if not l2_bytes:
        return segmented
    found = list(segmented.segments)
    before: int | None = None
    for k, segment in enumerate(found):
        if segment.is_opaque:
            before = None
        elif sum(_touched(segmented, segment).values()) * SMALL >= l2_bytes:
            if before is not None and _finds(segmented, found[before], segment, l2_bytes):
                found[k] = replace(segment, is_reversed=not found[before].is_reversed)
                shared = _touched(segmented, segment).keys()
                handed = frozenset(s.target for s in found[before].stores if s.target in shared)
                found[before] = replace(found[before], handed_on=handed)
            before = k
    return replace(segmented, segments=tuple(found))


def _finds(segmented: SegmentedFusion, before: Segment, segment: Segment, l2_bytes: int) -> bool:
    """True for a launch to which it matters where the one before stopped: that touched more than
    stays in the cache, and this one reads enough of it."""
    if not (_goes_on_in_order(before) and _goes_on_in_order(segment)):
        return False
    old = _touched(segmented, before)
    reads = {segmented.storage(tv) for tv in segment.inputs}
    shared = sum(size for tv, size in old.items() if tv in reads)
    return sum(old.values()) * LEFT > l2_bytes and shared * SMALL > l2_bytes


def _touched(segmented: SegmentedFusion, segment: Segment) -> dict[TensorView, int]:
    """What a segment reads and writes, and how many bytes that has."""
    tensors = (*segment.inputs, *(store.target for store in segment.stores))
    found: dict[TensorView, int] = {}
    for tv in tensors:
        root, size = segmented.storage(tv), segment.layouts[tv].distinct * tv.dtype.itemsize
        found[root] = max(found.get(root, 0), size)
    return found


def _goes_on_in_order(segment: Segment) -> bool:
    """True for what blocks compute of elements or rows, of which those with higher numbers lie
    behind the others. Those that sum columns have all rows, or a part of them each."""
    return all(row_shape(tv) is not None for tv in segment.long)
