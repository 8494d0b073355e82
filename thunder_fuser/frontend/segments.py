"""A partition of a fusion as definitions of their own, each tied to the parent by a fid map.

    parent: T0, T1; T2 = sum(T0, [1], keepdim=True); T3 = add(T1, T2)    groups {T2}, {T3}
    =>      segment 0: T0; T1 = sum(T0, ...)                   {0: 0, 1: 2}
            segment 1: T0, T1; T2 = add(T0, T1)                {0: 1, 1: 2, 2: 3}

A segment takes tensors of the parent, its scalar inputs, and the extents it cannot read off a
tensor of its own: those have negative fids in the parent. Only inputs and outputs are mapped.
Tensors that no group holds (views, which are index maps on edges) are recomputed by who reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thunder_fuser.frontend.cache import FusionCache
from thunder_fuser.frontend.leaf import Leaf
from thunder_fuser.frontend.segment_recorder import SegmentRecorder
from thunder_fuser.ir.tensor import TensorView

Group = Sequence[TensorView]


@dataclass(frozen=True, eq=False)
class Segment:
    """A segment's own leaf and its inputs and outputs as fids of the parent."""

    leaf: Leaf
    to_parent: Mapping[int, int]


def segment_definitions(
    parent: Leaf, groups: Sequence[Group], cache: FusionCache
) -> tuple[Segment, ...]:
    """The segments in an order in which they can run; none if there are fewer than two groups.

    `groups` are tensors of `parent.fusion`; they may overlap where a value is cheap to recompute.
    Raises RuntimeError for groups that wait for each other.
    """
    if len(groups) < 2:
        return ()
    ordered = _run_order(parent, _complete(parent, groups))
    wanted = _wanted_from(parent, ordered)
    produced: set[TensorView] = set()
    segments = []
    for group, needed in zip(ordered, wanted, strict=True):
        outputs = [tv for tv in group if tv in needed and tv not in produced]
        if outputs:
            produced.update(outputs)
            segments.append(Segment(*SegmentRecorder(parent, group, cache).record(outputs)))
    return tuple(segments) if len(segments) > 1 else ()


def _complete(parent: Leaf, groups: Sequence[Group]) -> list[tuple[TensorView, ...]]:
    """Each group in order of computation, with the ungrouped producers that it needs."""
    position = {tv: k for k, tv in enumerate(parent.fusion.tensors)}
    grouped = {tv for group in groups for tv in group}
    loose = [tv for tv in parent.fusion.roots if tv not in grouped and tv.definition is not None]
    complete = []
    for group in (*groups, *([tv] for tv in loose)):
        found, stack = set(group), list(group)
        while stack:
            expr = stack.pop().definition
            for producer in expr.tensors if expr is not None else ():
                is_own = producer.definition is not None and producer not in grouped
                if is_own and producer not in found:
                    found.add(producer)
                    stack.append(producer)
        complete.append(tuple(sorted(found, key=position.__getitem__)))
    return complete


def _external(group: Sequence[TensorView]) -> tuple[TensorView, ...]:
    """The tensors that a group reads and does not compute, in order of first use."""
    inside = set(group)
    return tuple(dict.fromkeys(p for tv in group for p in tv.producers if p not in inside))


def _run_order(
    parent: Leaf, groups: Sequence[tuple[TensorView, ...]]
) -> list[tuple[TensorView, ...]]:
    available = {v for v in parent.fusion.inputs if isinstance(v, TensorView)}
    waiting = [(group, _external(group)) for group in groups]
    ordered: list[tuple[TensorView, ...]] = []
    while waiting:
        ready = [k for k, (_, read) in enumerate(waiting) if available.issuperset(read)]
        if not ready:
            missing = [tv for tv in waiting[0][1] if tv not in available]
            fids = ", ".join(f"T{parent.fids.fid_of[tv]}" for tv in missing)
            raise RuntimeError(f"the segments wait for each other: no order computes {fids}")
        group, _ = waiting.pop(ready[0])
        ordered.append(group)
        available.update(group)
    return ordered


def _wanted_from(
    parent: Leaf, ordered: Sequence[tuple[TensorView, ...]]
) -> list[frozenset[TensorView]]:
    """Per segment, what leaves the fusion or is read by a later segment."""
    wanted: list[frozenset[TensorView]] = []
    later = frozenset(parent.fusion.roots)
    for group in reversed(ordered):
        wanted.append(later)
        later = later.union(_external(group))
    return wanted[::-1]
