"""A partition of a fusion as definitions of their own, each tied to the parent by a fid map.

    parent: T0, T1; T2 = sum(T0, [1], keepdim=True); T3 = add(T1, T2)    groups {T2}, {T3}
    =>      segment 0: T0; T1 = sum(T0, ...)                   {0: 0, 1: 2}
            segment 1: T0, T1; T2 = add(T0, T1)                {0: 1, 1: 2, 2: 3}

A segment takes tensors of the parent, its scalar inputs, and the extents it cannot read off a
tensor of its own: those have negative fids in the parent. Only inputs and outputs are mapped.
Tensors that no group holds (views, which are index maps on edges) are recomputed by who reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from thunder_fuser.frontend.cache import FusionCache
from thunder_fuser.frontend.leaf import Leaf
from thunder_fuser.frontend.segment_recorder import SegmentRecorder
from thunder_fuser.ir.fusion import topological
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
    produced: set[TensorView] = set()
    segments = []
    for position, group in enumerate(ordered):
        later = ordered[position + 1 :]
        outputs = [tv for tv in group if tv not in produced and _is_read(tv, parent, later)]
        if outputs:
            produced.update(outputs)
            recorder = SegmentRecorder(parent, group, cache)
            segments.append(Segment(*recorder.record(outputs)))
    return tuple(segments) if len(segments) > 1 else ()


def _complete(parent: Leaf, groups: Sequence[Group]) -> list[tuple[TensorView, ...]]:
    """Each group in order of computation, with the ungrouped producers that it needs."""
    grouped = {tv for group in groups for tv in group}
    loose = [tv for tv in parent.fusion.roots if tv not in grouped and tv.definition is not None]
    complete = []
    for group in (*groups, *([tv] for tv in loose)):
        wanted = set(group)
        for tv in reversed(parent.fusion.tensors):
            if tv in wanted and tv.definition is not None:
                wanted.update(
                    p
                    for p in tv.definition.tensors
                    if p not in grouped and p.definition is not None
                )
        complete.append(tuple(tv for tv in parent.fusion.tensors if tv in wanted))
    return complete


def external(group: Iterable[TensorView]) -> tuple[TensorView, ...]:
    """The tensors that a group reads and does not compute, in order of first use."""
    inside = set(group)
    read = (p for tv in inside_order(group) if tv.definition for p in tv.definition.tensors)
    return tuple(dict.fromkeys(p for p in read if p not in inside))


def inside_order(group: Iterable[TensorView]) -> tuple[TensorView, ...]:
    """The tensors of a group, producers first."""
    inside = set(group)
    return tuple(tv for tv in topological(group) if tv in inside)


def _run_order(
    parent: Leaf, groups: Sequence[tuple[TensorView, ...]]
) -> list[tuple[TensorView, ...]]:
    available = {v for v in parent.fusion.inputs if isinstance(v, TensorView)}
    waiting, ordered = list(groups), []
    while waiting:
        ready = [g for g in waiting if all(p in available for p in external(g))]
        if not ready:
            missing = [tv for tv in external(waiting[0]) if tv not in available]
            fids = ", ".join(f"T{parent.fids.fid_of[tv]}" for tv in missing)
            raise RuntimeError(f"the segments wait for each other: no order computes {fids}")
        ordered.append(ready[0])
        waiting.remove(ready[0])
        available.update(ready[0])
    return ordered


def _is_read(tv: TensorView, parent: Leaf, later: Sequence[tuple[TensorView, ...]]) -> bool:
    return tv in parent.fusion.roots or any(tv in external(group) for group in later)
