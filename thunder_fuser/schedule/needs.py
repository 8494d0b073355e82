"""What results need of their segment: what is in memory, and the reductions that a kernel makes.

A template says for each of its reductions at which index it has the result, and rejects segments
that read one elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from thunder_fuser.analysis.access import Demand, Index, demand
from thunder_fuser.analysis.elementwise import is_elementwise
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.phases import Element
from thunder_fuser.schedule.rejected import Rejected
from thunder_fuser.segment.segment import Segment


def needs_of(
    segment: Segment, reductions: Iterable[TensorView], results: Sequence[Element]
) -> Demand:
    """What `results` need down to memory, the reductions, and whatever else is long."""
    return demand(results, segment.leaves.union(segment.long, reductions))


def reductions_read(
    results: Iterable[Element], needs: Demand, own: Mapping[TensorView, Index]
) -> list[Element]:
    """Of `own` reductions those that results are or `needs`, and where they read them."""
    return [(tv, index) for tv, index in (*results, *needs.leaves) if tv in own]


def check_places(segment: Segment, reductions: Iterable[TensorView], needs: Demand) -> None:
    """Indices that tensors hold are loaded before the reductions are known. Raises Rejected."""
    ends = frozenset(reductions)
    for place in needs.places:
        found = needs_of(segment, ends, [(place.tensor, place.index)])
        if any(tv in ends for tv, _ in found.leaves):
            raise Rejected("an index is read from what a reduction makes")


def check_index(segment: Segment, index: TensorView) -> None:
    """An index that is put in order is in memory, or computed of what is wherever it is read.
    Raises Rejected."""
    if not is_elementwise(index, segment.leaves):
        raise Rejected("the index is not in memory")
