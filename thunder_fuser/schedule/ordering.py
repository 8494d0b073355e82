"""T8, the order template: the places of an index, those of one group side by side.

    T1 = group_order(T0, 9); T2 = group_keys(T0, T1, 9); T3 = group_ends(T2, 9)

A block owns neighbouring groups and reads the whole index. It counts the places of its groups and
those of all groups before them, so it knows where its part of the order begins and waits for no
other block. Then it writes its places, in their order: those that a warp kept while it counted, or,
where they were too many to keep, what it reads once more. So a long index, or one of many groups,
is put in order by its digits instead (`digit_stages.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.reductions import is_ordering, terms_of
from thunder_fuser.ir.scalar import static_int
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.needs import check_index
from thunder_fuser.schedule.parameters import OrderParameters
from thunder_fuser.schedule.rejected import Rejected, rejecting
from thunder_fuser.segment.segment import Segment
from thunder_fuser.target import MAX_THREADS, WARP, Target

COUNTERS = 8192  # of a block, 32 bits each: one per group that it owns and warp
MAX_READS = 2**24  # of an element of the index by a block, in all
FEW_OWN, MANY_OWN = 256, 512  # groups of a block
PREFERRED = OrderParameters()


@dataclass(frozen=True, eq=False)
class OrderSchedule:
    """Of an `index` of places below `count`; a block of `threads` owns `own` groups."""

    segment: Segment
    index: TensorView
    count: int
    own: int
    threads: int

    @property
    def terms(self) -> int:
        return self.index.shape[0]

    @property
    def blocks(self) -> int:
        """One of no groups reads the index as well: each place in it is an error."""
        return max(1, ceil_div(self.count, self.own))

    def __str__(self) -> str:
        names = self.segment.names
        made = ", ".join(f"{names[s.value]} = {s.value.expr.op.name}" for s in self.segment.stores)
        return (
            f"order of {self.terms} places in {self.count} groups by {names[self.index]}, "
            f"{self.own} groups a block of {self.threads}\n  {made}"
        )


def schedule(
    segment: Segment, target: Target, parameters: OrderParameters = PREFERRED
) -> OrderSchedule:
    """The groups of a block and its threads. Raises Rejected."""
    values = [store.value for store in segment.stores]
    if not values or not all(map(is_ordering, values)):
        raise Rejected("not the order of an index, or others beside it")
    if any(store.is_in_place for store in segment.stores):
        raise Rejected("the order of an index goes to a buffer of its own")
    found = {_ordered(tv) for tv in values}
    if len(found) != 1 or len({tv.expr.op.name for tv in values}) != len(values):
        raise Rejected("orders of several indices")
    index, count = found.pop()
    check_index(segment, index)
    own = parameters.own or _own(count, target)
    planned = OrderSchedule(segment, index, count, own, min(MAX_THREADS, COUNTERS // own * WARP))
    if planned.terms * planned.blocks > MAX_READS:
        raise Rejected(f"{planned.blocks} blocks would read an index of {planned.terms} each")
    return planned


reject = rejecting(schedule)


def _own(count: int, target: Target) -> int:
    """Few groups a block where each block has a multiprocessor to itself."""
    return FEW_OWN if count <= FEW_OWN * target.multiprocessors else MANY_OWN


def _ordered(tv: TensorView) -> tuple[TensorView, int]:
    """The index that `tv` is an order of, or the keys or the ends of one, and of how many groups.
    Raises Rejected for keys or ends of an order that a caller gives."""
    chain = [tv]
    while not chain[-1].is_of("group_order"):
        chain.append(chain[-1].producers[-1])
        if not is_ordering(chain[-1]):
            raise Rejected("keys or ends of an order that comes from elsewhere")
    found = {(terms_of(tv), groups_of(tv)) for tv in chain if not tv.is_of("group_ends")}
    if len(found) != 1 or any(groups_of(a) != groups_of(b) for a, b in pairwise(chain)):
        raise Rejected("keys of another index than the order")
    return found.pop()


def groups_of(tv: TensorView) -> int:
    """How many groups an op puts an index in order of."""
    count = tv.expr.attr("count")
    assert isinstance(count, tuple)
    size = static_int(count[0])  # type: ignore[arg-type]
    assert size is not None
    return size
