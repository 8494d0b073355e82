"""Which stores of one depth are one kernel.

T1 = sum(T0, rows); T2 = sum(T0, columns)        one kernel, if a template holds both
                                                 else one for the rows, one for the columns
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from thunder_fuser.analysis.reductions import (
    column_shape,
    is_grouped,
    is_long,
    is_ordering,
    made_by,
    row_shape,
)
from thunder_fuser.ir.fusion import Write
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.segment.memory import Memory
from thunder_fuser.segment.segment import Segment, Store

Reject = Callable[[Segment], str | None]

APART = "reduces along other axes than the segment before"
_BESIDE = "has sums, which no kernel has beside what is before it"
_ORDERS = "puts an index in order"
_KINDS = (_ORDERS, APART, APART, APART)  # why stores are apart that differ in one of their `_sums`
_NO_SUMS = (0, 0, 0, 0)


@dataclass(frozen=True)
class Group:
    """The stores of one kernel, and why it is `apart` from the one before, if it is."""

    stores: tuple[Store, ...]
    apart: str = ""


@dataclass(frozen=True, eq=False)
class Kernels:
    """What kernels there may be, once it is settled what lies in `memory`. `reject` says why no
    template can hold a segment. For what is `fast` the fast form of an op is good enough; what is
    `exact` is computed as the trace says, and what is `rounded` has its precision."""

    memory: Memory
    reject: Reject
    fast: frozenset[TensorView]
    exact: frozenset[TensorView]
    rounded: frozenset[TensorView]
    made: dict[tuple[Store, ...], Segment] = field(default_factory=dict)

    def segment(self, stores: Sequence[Store]) -> Segment:
        """The one of these stores: the same whenever it is asked for."""
        stores = tuple(stores)
        if stores not in self.made:
            produced = {s.value for s in stores if s.value.definition is not None}
            values, storage = self.memory.values, self.memory.storage
            leaves = frozenset(tv for tv in values if storage(tv) not in produced)
            is_opaque = any(s.value in self.memory.depth.opaque for s in stores)
            known = is_opaque, self.fast, self.exact, self.rounded
            self.made[stores] = Segment(stores, leaves, self.memory.layouts, *known)
        return self.made[stores]

    def copy(self, write: Write) -> Segment:
        """The one that moves what waits in memory to its target."""
        leaves = frozenset({write.value})
        return Segment((Store(write.value, write.target),), leaves, self.memory.layouts)

    def groups(self, stores: Sequence[Store]) -> list[Group]:
        """The stores of one depth as one kernel, or what sums nothing apart where one holds all
        others, or those with other kinds of sums, in an order in which each may read what was
        written before it."""
        if not stores:
            return []
        kinds = dict(zip(stores, self._sums(stores), strict=True))
        summed = [s for s in stores if any(kinds[s])]
        is_spoilt = 0 < len(summed) < len(stores) and self.reject(self.segment(stores)) is not None
        if is_spoilt and self.reject(self.segment(summed)) is None:
            rest = tuple(s for s in stores if s not in summed)
            return [Group(rest), Group(tuple(summed), _BESIDE)]
        return self._by_kind(stores, kinds, _KINDS)

    def _by_kind(
        self,
        stores: Sequence[Store],
        kinds: Mapping[Store, tuple[int, ...]],
        reasons: Sequence[str],
    ) -> list[Group]:
        """The stores as one kernel where a template holds it; else what differs in the first of the
        last `len(reasons)` numbers of its kind is apart, for the first of these reasons."""
        whole = self.segment(stores)
        if not reasons or self.reject(whole) is None:
            return [Group(whole.stores)]
        why, *rest = reasons
        kind = {store: kinds[store][-len(reasons)] for store in stores}
        parts = [[s for s in stores if kind[s] == k] for k in sorted({*kind.values()})]
        first, *others = (self._by_kind(part, kinds, rest) for part in parts)
        apart = [replace(g, apart=g.apart or why) for groups in others for g in groups]
        return [*first, *apart]

    def _sums(self, stores: Sequence[Store]) -> list[tuple[int, ...]]:
        """Of each store the number of the order that lies between what is in memory and it, and
        whether sums of groups, sums down columns, and sums along rows do."""
        segment, found = self.segment(stores), dict[TensorView, tuple[int, ...]]()
        for tv in segment.tensors:
            above: list[tuple[int, ...]] = [_NO_SUMS]
            if tv not in segment.leaves and tv.definition is not None:
                above += [found[p] for p in tv.producers]
                above += [self._own_sums(tv)] if is_long(tv) else []
            orders, *sums = zip(*above, strict=True)
            found[tv] = min(filter(None, orders), default=0), *map(max, sums)
        return [found[store.value] for store in stores]

    def _own_sums(self, tv: TensorView) -> tuple[int, ...]:
        """What a tensor that is long adds to those before it."""
        order = self._numbers[made_by(tv)] if is_ordering(tv) else 0
        return order, is_grouped(tv), column_shape(tv) is not None, row_shape(tv) is not None

    @cached_property
    def _numbers(self) -> Mapping[TensorView, int]:
        """By which orders are told apart."""
        return {tv: k for k, tv in enumerate(self.memory.fusion.tensors, 1)}

    def put_off(self, groups: Sequence[Group]) -> tuple[tuple[Store, ...], list[Group]]:
        """Of the kernels of one depth the stores that sum nothing and that no other one reads: a
        later kernel, which may be one that sums nothing either, can compute them as well. And the
        kernels that are left, of which the first stores what it reads of those, if it can."""
        first, second, *others = groups
        stores = [s for g in groups[1:] for s in g.stores]
        read = tuple(s for s in first.stores if self.are_read([s], stores))
        late = tuple(s for s in first.stores if s not in read)
        beside = Group((*read, *second.stores))
        kept = [beside, *others]
        if not late or any(map(any, self._sums(first.stores))):
            return (), [*groups]
        is_held = not read or self.reject(self.segment(beside.stores)) is None
        needed = [s for g in kept for s in g.stores]
        is_changed = self.are_read([s for s in needed if s.is_in_place], late)
        can_wait = is_held and not is_changed and not self.are_read(late, needed)
        return (late, kept) if can_wait else ((), [*groups])

    def are_read(self, waiting: Sequence[Store], stores: Sequence[Store]) -> bool:
        """True where one of the stores reads what one of the others, that wait, writes."""
        targets = {s.target for s in waiting}
        read = (tv for store in stores for tv in self.segment([store]).inputs)
        return bool(targets) and any(self.memory.storage(tv) in targets for tv in read)

    def fit(self, waiting: Sequence[Store], stores: Sequence[Store]) -> bool:
        """True where the kernels of both may write what they write in place."""
        if not (waiting and any(s.is_in_place for s in stores)):
            return True
        return self.may_write(self.groups([*waiting, *stores]))

    def may_write(self, groups: Sequence[Group]) -> bool:
        """True where templates hold all kernels, one of which may read at other elements what it
        writes in place, and none reads what another one does."""
        segments = [self.segment(group.stores) for group in groups]
        for segment in segments:
            targets = {s.target for s in segment.stores if s.is_in_place}
            others = (tv for other in segments if other is not segment for tv in other.inputs)
            if self.reject(segment) is not None:
                return False
            if any(self.memory.storage(tv) in targets for tv in others):
                return False
        return True
