"""Cut a region into segments.

    T2 = add(T0, T1); T3 = segment_set(T2); T4 = mul(T3, T1)
        =>   segment 0: T0, T1 -> T3        segment 1: T3, T1 -> T4        1 edge

The whole region is one segment unless something forces a cut: an explicit stop point, an op that no
template holds (run by torch), or an in-place write whose old value other threads still read. What
is cheap to recompute is never carried across a cut (`carry`); a stop point that is a view of
something in memory launches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from thunder_fuser.analysis.layout import Layout
from thunder_fuser.analysis.precision import compared, fast_enough, told_apart
from thunder_fuser.ir.fusion import Fusion, Write
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.segment.apart import Apart
from thunder_fuser.segment.carry import carried, constants
from thunder_fuser.segment.crossings import keep_crossings
from thunder_fuser.segment.depth import depths
from thunder_fuser.segment.kernels import APART, Kernels, Reject
from thunder_fuser.segment.kinds import NOTHING, Test
from thunder_fuser.segment.memory import Memory
from thunder_fuser.segment.outputs import plan_outputs
from thunder_fuser.segment.segment import Segment, Store
from thunder_fuser.segment.segmented import SegmentedFusion
from thunder_fuser.segment.waits import Waits, waits_of, why_torch
from thunder_fuser.segment.writes import settle_writes, stores_of


def cut(
    fusion: Fusion,
    input_layouts: Mapping[TensorView, Layout],
    reject: Reject,
    copies: bool = False,
    is_shared: Test = NOTHING,
) -> SegmentedFusion:
    """The segments of a concrete fusion. `reject` says why no template can hold a segment. With
    `copies` no output is a view of another tensor. Several blocks share each row of a reduction
    that `is_shared`."""
    reject = cache(reject)
    fusion = settle_writes(fusion)
    fast, exact = fast_enough(fusion), compared(fusion)
    rounded = exact | told_apart(fusion)
    waits = waits_of(fusion, is_shared)
    while True:
        memory = _settle_memory(fusion, input_layouts, copies, waits)
        kernels = Kernels(memory, reject, fast, exact, rounded)
        launches = [*_launches(kernels)]
        segments, reasons = [s for s, _ in launches], [reason for _, reason in launches]
        refused = [s for s in segments if not s.is_opaque and reject(s) is not None]
        more = waits.after(refused)
        if more is None:
            views, layouts = memory.views, memory.layouts
            return SegmentedFusion(fusion, tuple(segments), views, layouts, tuple(reasons))
        waits = more


def _settle_memory(
    fusion: Fusion, input_layouts: Mapping[TensorView, Layout], copies: bool, waits: Waits
) -> Memory:
    """What lies in memory: what is given and returned, what must lie there whatever it costs, and
    what would cost more to compute again behind a cut."""
    free, tests = constants(fusion), (waits.apart, waits.late, waits.kept)
    depth = depths(fusion, waits.opaque, free, *(found.__contains__ for found in tests))
    memory = Memory(depth, free, dict(input_layouts), dict.fromkeys(input_layouts))
    outputs = plan_outputs(fusion, input_layouts, copies)
    apart = Apart(fusion, waits.opaque)
    for tv in outputs.computed:
        memory.materialise(tv)
    for tv in apart.boundaries():
        memory.keep(carried(tv))
    for write in fusion.writes:
        memory.write(write)
    keep_crossings(memory, apart.indexing)
    memory.views.update(outputs.views)
    return memory


def _launches(kernels: Kernels) -> Iterator[tuple[Segment, str]]:
    """The segments of at least one element in their order, each with why it is not part of the one
    before: at each depth first what torch runs. Stores that sum nothing wait for the kernels of the
    next depth if these can compute them; writes in place that wait for readers come last."""
    found = _by_depth(kernels)
    return ((s, reason) for s, reason in found if any(0 not in t.value.shape for t in s.stores))


def _by_depth(kernels: Kernels) -> Iterator[tuple[Segment, str]]:
    depth_of, stored = kernels.memory.depth, kernels.memory.stored
    why = depth_of.reasons()
    late: list[Write] = []
    waiting: tuple[Store, ...] = ()
    for depth in sorted(stored):
        opaque = [Store(tv, tv) for tv in stored[depth] if tv in depth_of.opaque]
        stores, postponed = stores_of(kernels, depth)
        late += postponed
        if kernels.are_read(waiting, [*opaque, *stores]) or not kernels.fit(waiting, stores):
            yield kernels.segment(waiting), APART
            waiting = ()
        for store in opaque:
            yield kernels.segment([store]), why_torch(store.value)
        groups, waiting = kernels.groups([*waiting, *stores]), ()
        if len(groups) > 1 and depth != max(stored):
            waiting, groups = kernels.put_off(groups)
        for group in groups:
            yield kernels.segment(group.stores), group.apart or why.get(depth, "the region")
    for write in late:
        yield kernels.copy(write), "in-place write ordered after the last read of the old value"
