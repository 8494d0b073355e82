"""Cut a region into segments.

    T2 = add(T0, T1); T3 = segment_set(T2); T4 = mul(T3, T1)
        =>   segment 0: T0, T1 -> T3        segment 1: T3, T1 -> T4        1 edge

The whole region is one segment unless something forces a cut: an explicit stop point, an op that no
template holds (run by torch), or an in-place write whose old value other threads still read. What
is cheap to recompute is never carried across a cut (`carry`); a stop point that is a view of
something in memory launches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import gcd, prod

from thunder_fuser.analysis.elementwise import is_elementwise
from thunder_fuser.analysis.layout import Layout, output_layout
from thunder_fuser.analysis.precision import compared, fast_enough
from thunder_fuser.analysis.reductions import (
    column_shape,
    is_grouped,
    is_long,
    is_ordering,
    is_scan,
    is_scattered,
    made_by,
    plane_of,
    row_shape,
)
from thunder_fuser.analysis.views import View, follow, is_stop, view_of
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion, Write, topological
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Cost, Family
from thunder_fuser.segment.carry import carried, constants
from thunder_fuser.segment.depth import Depths, depths
from thunder_fuser.segment.kinds import Test
from thunder_fuser.segment.outputs import plan_outputs
from thunder_fuser.segment.segment import Segment, Store
from thunder_fuser.segment.segmented import SegmentedFusion

Reject = Callable[[Segment], str | None]

SPREAD = 16  # elements for each of a value, from which on that is not computed for all of them
SLIGHT = 16  # what is so many times smaller counts as nothing beside what is written and read

_APART = "reduces along other axes than the segment before"
_ORDERS = "puts an index in order"
_KINDS = (_ORDERS, _APART, _APART, _APART)  # why stores are apart that differ in what they reduce


def _never(tv: TensorView) -> bool:
    return False


def cut(
    fusion: Fusion,
    input_layouts: Mapping[TensorView, Layout],
    reject: Reject,
    copies: bool = False,
    is_shared: Test = _never,
) -> SegmentedFusion:
    """The segments of a concrete fusion. `reject` says why no template can hold a segment. With
    `copies` no output is a view of another tensor. Several blocks share each row of a reduction
    that `is_shared`."""
    fusion = _settle_writes(fusion)
    opaque = frozenset(tv for tv in fusion.tensors if _is_torchs(tv))
    apart = frozenset(tv for tv in fusion.tensors if is_shared(tv))
    late = frozenset[TensorView]()
    kept = frozenset(tv for tv in fusion.tensors if _may_be_kept(tv))
    while True:
        waits = apart.__contains__, late.__contains__, kept.__contains__
        cutter = _Cutter(fusion, dict(input_layouts), reject, copies, opaque, *waits)
        segmented = cutter.run()
        refused = _refused(segmented, reject)
        found = frozenset(tv for segment in refused for tv in segment.long)
        if not found:
            return segmented
        if not kept.isdisjoint(found):  # each kernel reads these columns anew
            kept -= found
            continue
        # What needs them whole, or has sums down its columns, may be too much for one kernel.
        scattered = frozenset(filter(is_scattered, found)) - apart
        behind = frozenset(tv for segment in refused for tv in _behind_rows(segment)) - late
        # So may other rows, of what reads their results: then it waits for another launch.
        rest = frozenset() if scattered or behind else found
        opaque |= rest & apart
        apart, late = apart | scattered | rest, late | behind


def _may_be_kept(tv: TensorView) -> bool:
    """True for reductions down columns, which a block may keep until their results are known."""
    return is_long(tv) and not is_scan(tv) and column_shape(tv) is not None


def _is_torchs(tv: TensorView) -> bool:
    """True for what no template can ever hold."""
    return is_long(tv) and plane_of(tv) is None and not (is_grouped(tv) or is_ordering(tv))


def _why_torch(tv: TensorView) -> str:
    assert tv.definition is not None
    if is_ordering(tv):
        return f"{tv.definition.op.name} is done by torch"
    return "no template holds a reduction this long yet"


def _refused(segmented: SegmentedFusion, reject: Reject) -> list[Segment]:
    """Segments that no template holds: torch will run their long reductions."""
    kernels = (segment for segment in segmented.segments if not segment.is_opaque)
    return [segment for segment in kernels if reject(segment) is not None]


def _behind_rows(segment: Segment) -> list[TensorView]:
    """Reductions over several rows, of terms that need reductions along them in the same segment:
    sums down columns, and short ones."""
    rows = {tv for tv in segment.long if row_shape(tv) is not None}
    made = (tv for tv in segment.tensors if tv not in segment.leaves)
    others = (tv for tv in made if _is_reduction(tv) and tv not in rows)
    return [tv for tv in others if not rows.isdisjoint(topological([tv], segment.leaves))]


def _settle_writes(fusion: Fusion) -> Fusion:
    """`fusion` with writes whose order does not matter: the last one of each target, and a saved
    value for every input that is written into one input and over by another write."""
    last = {w.target: w.value for w in fusion.writes}
    crossed = set(last.values()) & set(last)
    if len(last) == len(fusion.writes) and not crossed:
        return fusion
    saved = {tv: call("set", tv) for tv in fusion.tensors if tv in crossed}
    final = {w.value: saved.get(last[w.target], last[w.target]) for w in fusion.writes}
    outputs = tuple(final.get(tv, tv) for tv in fusion.outputs)
    writes = tuple(Write(saved.get(value, value), target) for target, value in last.items())
    return Fusion(fusion.inputs, outputs, writes)


@dataclass
class _Cutter:
    fusion: Fusion
    layouts: dict[TensorView, Layout]
    reject: Reject
    copies: bool
    opaque: frozenset[TensorView]  # run by torch between kernels
    is_shared: Test
    is_late: Test
    is_kept: Test
    views: dict[TensorView, View] = field(default_factory=dict)
    depth: Depths = field(init=False)
    stored: dict[int, dict[TensorView, None]] = field(default_factory=dict)
    memory: dict[TensorView, None] = field(default_factory=dict)  # what can be read as a leaf
    cheap: dict[TensorView, bool] = field(default_factory=dict)  # as long as `memory` stays
    constants: frozenset[TensorView] = frozenset()
    fast: frozenset[TensorView] = frozenset()
    exact: frozenset[TensorView] = frozenset()
    indexing: frozenset[TensorView] = frozenset()

    def run(self) -> SegmentedFusion:
        self.fast, self.exact = fast_enough(self.fusion), compared(self.fusion)
        self.constants = constants(self.fusion)
        self.indexing = self._find_indexing()
        waits = self.is_shared, self.is_late, self.is_kept
        self.depth = depths(self.fusion, self.opaque, self.constants, *waits)
        outputs = plan_outputs(self.fusion, self.layouts, self.copies)
        self.memory.update((v, None) for v in self.layouts)
        for tv in outputs.computed:
            self._materialise(tv)
        for tv in self.fusion.tensors:
            is_boundary = is_stop(tv) or self._is_apart(tv) or self._feeds_apart(tv)
            if is_boundary:
                self._keep(carried(tv))
        for write in self.fusion.writes:
            self.stored.setdefault(self.depth[write.value], {})
        self._spill_crossings()
        self.views.update(outputs.views)
        segments, reasons = self._build()
        return SegmentedFusion(self.fusion, segments, self.views, self.layouts, reasons)

    @property
    def targets(self) -> frozenset[TensorView]:
        return frozenset(w.target for w in self.fusion.writes)

    def _is_apart(self, tv: TensorView) -> bool:
        """True for what is made of tensors in memory, whatever makes it."""
        return tv in self.opaque or is_ordering(tv)

    def _feeds_apart(self, tv: TensorView) -> bool:
        return tv not in self.indexing and any(map(self._is_apart, self.fusion.uses[tv]))

    def _find_indexing(self) -> frozenset[TensorView]:
        """What kernels compute where they put it in order, and all between it and memory. Torch
        has it in memory."""
        apart = filter(self._is_apart, self.fusion.tensors)
        read = {tv: tv.definition.tensors for tv in apart if tv.definition is not None}
        of_torch = {p for tv in read if tv in self.opaque for p in read[tv]}
        found = [p for tv in read for p in read[tv] if p not in of_torch and is_elementwise(p)]
        return frozenset(tv for tv in topological(found) if tv.definition is not None)

    def _keep(self, tv: TensorView) -> None:
        """Have `tv` in memory: as a view of something there, else written by its segment. What is
        read out of an in-place target stays an index map: its readers run before the write."""
        if tv in self.memory or tv in self.constants:
            return
        chain = follow(tv, lambda t: t in self.memory)
        if chain is not None and chain.root in self.memory:
            if chain.root in self.targets:
                return
            view = view_of(tv, chain, self.layouts[chain.root])
            if view is not None:
                self.views[tv] = view
                self._remember(tv)
                alignment = _view_alignment(view, tv, self.layouts[chain.root])
                self.layouts[tv] = Layout(view.shape, view.strides, alignment)
                return
        self._materialise(tv)

    def _materialise(self, tv: TensorView) -> None:
        self.layouts[tv] = output_layout(tv)
        if tv not in self.constants:  # readers write the literal
            self._remember(tv)
        self.stored.setdefault(self.depth[tv], {})[tv] = None

    def _remember(self, tv: TensorView) -> None:
        self.memory[tv] = None
        self.cheap.clear()

    def _spill_crossings(self) -> None:
        """Values read behind a later cut: recompute them there, or keep them in memory."""
        for depth in range(max(self.stored, default=0), -1, -1):  # keeping adds lower depths
            if depth not in self.stored:
                continue
            for tv in self._cone(depth):
                if self._crosses(tv, depth):
                    self._keep(carried(tv))

    def _cone(self, depth: int) -> list[TensorView]:
        """What the stores of one depth read and compute, consumers first."""
        roots = [*self.stored[depth], *self._written(depth)]
        seen: dict[TensorView, None] = {}
        stack = list(roots)
        while stack:
            tv = stack.pop()
            if tv in seen or (tv in self.memory and tv not in roots):
                continue
            seen[tv] = None
            if tv.definition is not None and not self._crosses(tv, depth):
                stack.extend(tv.definition.tensors)
        return [tv for tv in seen if tv not in roots]

    def _crosses(self, tv: TensorView, depth: int) -> bool:
        """True for what a kernel of that depth reads in memory, as an earlier one made it."""
        return self.depth[tv] < depth and (not self._is_cheap(tv) or self._is_spread(tv))

    def _is_spread(self, tv: TensorView) -> bool:
        """True for a function of sums that readers would compute for many elements each: the square
        root of a channel's, for all of the channel. Who has the sums can store it."""
        made = tv.definition
        if made is None or made.op.cost is not Cost.EXPENSIVE:
            return False
        if not any(is_long(made) for made in topological([tv], self.memory)):
            return False
        stack, seen = [tv], {tv}
        while stack:
            current = stack.pop()
            if prod(current.shape) >= SPREAD * prod(tv.shape) > 0:
                return True
            found = {u for u in self.fusion.uses[current] if not _is_reduction(u)} - seen
            seen |= found
            stack += found
        return False

    def _written(self, depth: int) -> list[TensorView]:
        return [w.value for w in self.fusion.writes if self.depth[w.value] == depth]

    def _is_cheap(self, tv: TensorView) -> bool:
        """True where recomputing costs no more bytes than writing and reading the value, or but a
        few. What lies behind a cut before `tv` is read from memory, unless it is cheap itself."""
        if tv not in self.cheap:
            self.cheap[tv] = tv in self.indexing or self._recomputes_cheaply(tv)
        return self.cheap[tv]

    def _recomputes_cheaply(self, tv: TensorView) -> bool:
        extra, stack, seen = 0, [tv], set()
        while stack:
            current = stack.pop()
            if current in seen:
                continue
            seen.add(current)
            kept = self.depth[current] < self.depth[tv] and not self._is_cheap(current)
            kept |= current is not tv and _is_reduction(current)  # it will be, if `tv` is not
            if kept or current in self.memory or current.definition is None:
                extra += prod(current.shape) * current.dtype.itemsize
            elif current.definition.op.cost is Cost.NEVER:
                return False
            else:
                stack.extend(current.definition.tensors)
                extra += _repeated(current)
        own = prod(tv.shape) * tv.dtype.itemsize
        return SLIGHT * (extra - 2 * own) <= own

    def _build(self) -> tuple[tuple[Segment, ...], tuple[str, ...]]:
        segments: list[Segment] = []
        reasons: list[str] = []
        late: list[Write] = []
        waiting: list[Store] = []
        why = self.depth.reasons()
        for depth in sorted(self.stored):
            direct, postponed = self._split_writes(depth)
            late += postponed
            opaque = [Store(t, t) for t in self.stored[depth] if t in self.opaque]
            stores = self._stores(depth, direct, postponed)
            if self._are_read(waiting, [*opaque, *stores]) or not self._fit(waiting, stores):
                segments.append(self._segment(waiting))
                reasons.append(_APART)
                waiting = []
            for store in opaque:
                segments.append(self._segment([store], is_opaque=True))
                reasons.append(_why_torch(store.value))
            groups, waiting = self._kernels([*waiting, *stores]), []
            if len(groups) > 1 and depth != max(self.stored):
                waiting = self._without_reductions(groups)
            segments += [self._segment(group) for group, _ in groups]
            reasons += [apart or why.get(depth, "the region") for _, apart in groups]
        for write in late:
            segments.append(self._copy_segment(write))
            reasons.append("in-place write ordered after the last read of the old value")
        kept = [k for k, s in enumerate(segments) if not self._is_empty(s)]
        return tuple(segments[k] for k in kept), tuple(reasons[k] for k in kept)

    def _without_reductions(self, groups: list[tuple[list[Store], str]]) -> list[Store]:
        """The stores that sum nothing, taken out of the kernels of one depth: a later kernel, which
        may be one that sums nothing either, can compute them as well."""
        (first, _), (second, _) = groups[:2]
        leaves = self._segment(first).leaves
        others = [store for group, _ in groups[1:] for store in group]
        if any(any(self._reductions_of(s, leaves)) for s in first) or self._are_read(first, others):
            return []
        groups[:2] = [(second, "")]
        return first

    def _are_read(self, waiting: list[Store], stores: list[Store]) -> bool:
        """True where one of the stores reads what another one, that waits, has not written yet."""
        targets = {s.target for s in waiting}
        return any(
            self._storage(tv) in targets
            for store in stores
            for tv in self._segment([store], store.value in self.opaque).inputs
        )

    def _fit(self, waiting: list[Store], stores: list[Store]) -> bool:
        """True where templates hold the kernels of both: what waits may read at other elements what
        the others write in place."""
        if not (waiting and any(s.is_in_place for s in stores)):
            return True
        kernels = self._kernels([*waiting, *stores])
        return all(self.reject(self._segment(group)) is None for group, _ in kernels)

    def _kernels(self, stores: list[Store]) -> list[tuple[list[Store], str]]:
        """The stores of one depth as one kernel, or those with other kinds of sums apart, in an
        order in which each may read what was written before it; and why a later one is apart."""
        leaves = self._segment(stores).leaves
        kinds = {store: self._reductions_of(store, leaves) for store in stores}
        return self._by_kind(stores, kinds, _KINDS) if stores else []

    def _by_kind(
        self, stores: list[Store], kinds: Mapping[Store, tuple[int, ...]], reasons: tuple[str, ...]
    ) -> list[tuple[list[Store], str]]:
        """The stores as one kernel where a template holds it; else what differs in the first of the
        last `len(reasons)` numbers of its kind is apart, for the first of these reasons."""
        if not reasons or self.reject(self._segment(stores)) is None:
            return [(stores, "")]
        why, *rest = reasons
        groups: dict[int, list[Store]] = {}
        for store in stores:
            groups.setdefault(kinds[store][-len(reasons)], []).append(store)
        first, *others = (self._by_kind(groups[k], kinds, tuple(rest)) for k in sorted(groups))
        return [*first, *((group, apart or why) for found in others for group, apart in found)]

    def _reductions_of(self, store: Store, leaves: frozenset[TensorView]) -> tuple[int, ...]:
        """The number of the order that lies between `leaves` and a store, and whether sums of
        groups, sums down columns, and sums along rows do."""
        long = Segment((store,), leaves, self.layouts).long
        down = any(column_shape(tv) is not None for tv in long)
        along = any(row_shape(tv) is not None for tv in long)
        orders = {made_by(tv) for tv in long if is_ordering(tv)}
        order = next((k for k, tv in enumerate(self.fusion.tensors, 1) if tv in orders), 0)
        return order, any(map(is_grouped, long)), down, along

    def _is_empty(self, segment: Segment) -> bool:
        return all(0 in s.value.shape for s in segment.stores)

    def _split_writes(self, depth: int) -> tuple[list[Write], list[Write]]:
        """Writes of this depth that may go straight to their target, and those that must wait until
        every reader of the old value is done."""
        writes = [w for w in self.fusion.writes if self.depth[w.value] == depth]
        direct = [w for w in writes if w.value not in self.opaque]
        direct = [w for w in direct if not self._read_later(w.target, depth)]
        postponed = [w for w in writes if w not in direct]
        for write in writes:
            self.layouts.setdefault(write.value, output_layout(write.value))
        if direct and not self._may_write(self._kernels(self._stores(depth, direct, postponed))):
            direct, postponed = [], writes
        return direct, postponed

    def _may_write(self, kernels: list[tuple[list[Store], str]]) -> bool:
        """True where templates hold all kernels and none reads what another one writes in place."""
        segments = [self._segment(stores) for stores, _ in kernels]
        for segment in segments:
            targets = {s.target for s in segment.stores if s.is_in_place}
            others = [tv for other in segments if other is not segment for tv in other.inputs]
            if self.reject(segment) is not None or any(self._storage(t) in targets for t in others):
                return False
        return True

    def _stores(self, depth: int, direct: list[Write], postponed: list[Write]) -> list[Store]:
        """What the kernels of one depth write; postponed values wait in memory for their copy."""
        known = {**self.memory, **self.stored[depth]}
        waiting = [w.value for w in postponed if w.value not in known]
        values = [tv for tv in self.stored[depth] if tv not in self.opaque]
        stores = [Store(tv, tv) for tv in dict.fromkeys((*values, *waiting))]
        return [*stores, *(Store(w.value, w.target) for w in direct)]

    def _read_later(self, target: TensorView, depth: int) -> bool:
        later = [d for d in self.stored if d > depth]
        return any(self._reads(target, d) for d in later)

    def _reads(self, target: TensorView, depth: int) -> bool:
        roots = [*self.stored[depth], *self._written(depth)]
        stack, seen = [p for tv in roots if tv.definition for p in tv.definition.tensors], set()
        while stack:
            tv = stack.pop()
            if self._storage(tv) is target:
                return True
            if tv not in seen and tv not in self.memory and tv.definition is not None:
                seen.add(tv)
                stack.extend(tv.definition.tensors)
        return False

    def _storage(self, tv: TensorView) -> TensorView:
        while tv in self.views:
            tv = self.views[tv].root
        return tv

    def _copy_segment(self, write: Write) -> Segment:
        leaves = frozenset({write.value})
        return Segment((Store(write.value, write.target),), leaves, self.layouts)

    def _segment(self, stores: list[Store], is_opaque: bool = False) -> Segment:
        produced = {s.value for s in stores if s.value.definition is not None}
        leaves = frozenset(tv for tv in self.memory if self._storage(tv) not in produced)
        return Segment(tuple(stores), leaves, self.layouts, is_opaque, self.fast, self.exact)


def _view_alignment(view: View, tv: TensorView, root: Layout) -> int:
    return gcd(root.alignment, view.offset * tv.dtype.itemsize) or root.alignment


def _repeated(tv: TensorView) -> int:
    """Bytes that a gather reads beyond those that its producer has: of rows that are there several
    times."""
    assert tv.definition is not None
    if tv.definition.op.family is not Family.GATHER:
        return 0
    table = tv.definition.tensors[0]
    return max(prod(tv.shape) - prod(table.shape), 0) * table.dtype.itemsize


def _is_reduction(tv: TensorView) -> bool:
    return tv.definition is not None and tv.definition.op.family is Family.REDUCTION
