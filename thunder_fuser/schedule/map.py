"""T1, the map template: every stored element is a function of elements read.

One thread owns one vector of the innermost axis and all unrolled copies of it; threads are numbered
along the parallel axes, the innermost fastest.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from thunder_fuser.analysis.met_rows import MAX_MET
from thunder_fuser.analysis.reductions import met_rows
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.classes import IterationClass, classify
from thunder_fuser.schedule.flat_stores import flat_stores
from thunder_fuser.schedule.flatten import flatten
from thunder_fuser.schedule.gathered_rows import gathered_rows
from thunder_fuser.schedule.needs import check_in_place
from thunder_fuser.schedule.nest import refine
from thunder_fuser.schedule.order import arrange, merge_axes
from thunder_fuser.schedule.own import own
from thunder_fuser.schedule.own_rows import own_rows
from thunder_fuser.schedule.parameters import MAX_LOADED, MapParameters
from thunder_fuser.schedule.rejected import Rejected, rejecting
from thunder_fuser.schedule.text import named, print_axes, print_element
from thunder_fuser.schedule.vectorize import VectorClass, vectorize
from thunder_fuser.segment.segment import Segment

LONG = "a reduction longer than a thread sums in registers"

FEW = 1024  # times fewer elements than the largest class has: what these threads do costs little


@dataclass(frozen=True, eq=False)
class MapSchedule:
    """Loop nests in `classes`, each of which has a range of blocks of its own."""

    segment: Segment
    classes: tuple[VectorClass, ...]
    parameters: MapParameters

    def __str__(self) -> str:
        lines = [f"map, blocks of {self.parameters.threads}{self.segment.direction}"]
        for found in self.classes:
            lines += _print_class(found, self.segment.names)
        return "\n".join(lines)


def schedule(segment: Segment, parameters: MapParameters) -> MapSchedule:
    """The loop domains of a segment under T1. Raises Rejected: reductions must be short, and an
    in-place target must be read only by the thread and at the element that writes it."""
    if _is_long(segment):
        raise Rejected(LONG)
    groups = _groups(segment, parameters.of_owners)
    rows: tuple[VectorClass, ...] = ()
    if not parameters.rests:  # a text for many lengths: what aligns is not known
        plain = _arranged(segment, parameters.of_classes)
        shifted = tuple(gathered_rows(merge_axes(p), parameters) for p in plain)
        rows = tuple(found for found in shifted if found is not None)
        pairs = [(g, p) for g, p, s in zip(groups, plain, shifted, strict=True) if s is None]
        groups = flat_stores(tuple(_flat(g, p, parameters) for g, p in pairs), parameters)
        groups = tuple(found for g in groups for found in own_rows(g, parameters))
    most = max((prod(a.size for a in g.axes) for g in groups), default=0)
    classes = (*rows, *(c for g in groups for c in vectorize(g, _beside(g, most, parameters))))
    for found in classes if _targets_read(segment) else ():
        made = [(nest.store, nest.index) for nest in found.group.nests]
        for needs in found.group.needs:
            check_in_place(segment, needs.leaves, made, segment.stores)
    return MapSchedule(segment, classes, parameters)


def _flat(
    group: IterationClass, plain: IterationClass, parameters: MapParameters
) -> IterationClass:
    """`group`, with as few axes as vectors need. It is `plain` with several values of an axis in
    one thread: but rows of odd length are rather one axis, of which a thread has packs."""
    if group.axes != plain.axes:
        rows = flatten(merge_axes(plain), parameters)
        if own_rows(rows, parameters) != (rows,):
            return rows
    return flatten(group, parameters)


def _beside(group: IterationClass, most: int, parameters: MapParameters) -> MapParameters:
    """With narrower vectors for a class of few elements beside one of so many, if it would fill
    registers, of which all threads of a launch have as many: the gradient of a response norm,
    beside sums over 14 images, had 99 for 40."""
    if not group.axes or FEW * prod(a.size for a in group.axes) > most:
        return parameters
    innermost, lanes = group.axes[-1], parameters.lanes
    loaded = sum(tv.dtype.itemsize for tv, form in group.loads if innermost in form.bases)
    while lanes > 1 and lanes * loaded > MAX_LOADED:
        lanes //= 2
    return replace(parameters, lanes=lanes)


def forget() -> None:
    """Let go of the segments that were arranged last."""
    _groups.cache_clear()
    _arranged.cache_clear()


@lru_cache(maxsize=1)  # a tuner asks for one segment with several sets of parameters
def _groups(segment: Segment, parameters: MapParameters) -> tuple[IterationClass, ...]:
    groups = _arranged(segment, parameters.of_classes)
    points = sum(prod(a.size for a in g.axes) for g in groups)
    return tuple(merge_axes(own(g, parameters, points)) for g in groups)


@lru_cache(maxsize=1)
def _arranged(segment: Segment, parameters: MapParameters) -> tuple[IterationClass, ...]:
    nests = [nest for store in segment.stores for nest in refine(segment, store)]
    return tuple(arrange(g) for g in classify(segment, nests, parameters))


def reject(segment: Segment, parameters: MapParameters) -> str | None:
    """Why T1 cannot run this segment, or None. Only in-place targets that are read need a schedule
    to be judged."""
    if _is_long(segment):
        return LONG
    return rejecting(schedule)(segment, parameters) if _targets_read(segment) else None


def _is_long(segment: Segment) -> bool:
    return bool(segment.long) or any((met_rows(tv) or 0) > MAX_MET for tv in segment.met)


def _print_class(found: VectorClass, tensors: Mapping[TensorView, str]) -> list[str]:
    """A class and, below it, what one of its threads stores."""
    names = named("i", found.axes)
    lanes = "" if found.lane is None else f" and lane{{{found.lanes}}}"
    streams = ", streaming" if found.streams else ""
    side = "" if found.tile is None else f", in {found.tile}"
    lines = [f"  class over {print_axes(found.axes, names)}{lanes}{side}{streams}"]
    for nest in found.group.nests:
        # Nests of a class number their parallel axes alike; each has unrolled ones of its own.
        unrolled = named("u", nest.unrolled)
        known = {**names, **unrolled}
        if found.lane is not None:
            known[found.lane] = "lane"
        copies = f", {print_axes(nest.unrolled, unrolled)} in one thread" if unrolled else ""
        target = tensors[nest.store.value]
        lines.append(f"    {print_element(target, nest.index, known)}{copies}")
    return lines


def _targets_read(segment: Segment) -> Set[TensorView]:
    return {s.target for s in segment.stores if s.is_in_place} & segment.leaves
