"""One iteration class to one body: elements become lane statements, accesses become vectors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from thunder_fuser.analysis.access import demand
from thunder_fuser.analysis.digits import add, atom, scale
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.analysis.layout import offset_of
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.ir.scalar import Scalar
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.elements import ElementWriter
from thunder_fuser.kernel.map_ir import Body, Turning
from thunder_fuser.kernel.row_values import RowValues, split
from thunder_fuser.kernel.shifted import RowAccesses
from thunder_fuser.kernel.turning import TurnedAccesses
from thunder_fuser.kernel.vectors import Accesses
from thunder_fuser.kernel.words import in_words
from thunder_fuser.schedule.flatten import without_carries
from thunder_fuser.schedule.nest import instances
from thunder_fuser.schedule.vectorize import VectorClass


def lower_class(
    planned: VectorClass,
    tensors: Mapping[TensorView, str],
    scalars: Mapping[Scalar, str],
    strict: bool,
    row: Window | None = None,
) -> Body:
    """The body that runs one iteration class. With a `row`, its threads have vectors that begin in
    that window."""
    segment = planned.group.segment
    accesses = _accesses(planned, tensors)
    stores = [(nest, index) for nest in planned.group.nests for index in instances(nest)]
    needs = demand(
        [(nest.store.value, index) for nest, index in stores], segment.leaves, planned.is_uniform
    )
    speculates = planned.row is not None or any(needs.windows())  # lanes beside a row are none
    holds = partial(_holds, row, planned.lane)
    writer = ElementWriter(segment, tensors, scalars, accesses, strict, speculates, holds)
    before = writer.locate(filter(planned.is_uniform, needs.places))
    writer.request(needs)
    loads = accesses.group_loads()
    if planned.lane is not None:
        alike = RowValues((planned.lane,), (a.name for a in loads), scalars.values())
        writer.repeats = alike.repeats
    writer.evaluate(needs)
    targets = []
    for nest, index in stores:
        offset = offset_of(segment.layouts[nest.store.target], index)
        targets.append((nest.store.target, offset, writer.values[nest.store.value, index]))
    writes, vectors = accesses.group_stores(targets)
    once, statements = split((*writer.statements, *writes))
    turning = None
    if planned.tile is not None and isinstance(accesses, TurnedAccesses):
        turning = Turning(planned.tile, accesses.turned_loads, accesses.stores)
    axes, lane = planned.axes, planned.lane
    found, inside = without_carries(planned), None
    if found is not None:
        inside = (found[0], lower_class(found[1], tensors, scalars, strict, found[0]))
    made = Body(
        axes, lane, planned.lanes, loads, statements, vectors, before, once, turning, inside
    )
    layouts = segment.layouts
    return in_words(made, {n: layouts[tv].alignment for tv, n in tensors.items() if tv in layouts})


def _holds(row: Window | None, lane: IterDomain | None, window: Window) -> bool:
    """True for a window that no lane leaves of a vector that begins in a row's."""
    if row is None or lane is None:
        return False
    low, high = add(window.form, scale(add(row.form, atom(lane)), -1)).bounds
    return low >= 0 and high + row.extent + lane.size - 2 < window.extent


def _accesses(planned: VectorClass, tensors: Mapping[TensorView, str]) -> Accesses:
    """What a flat class reads one by one, or one of lanes that lie apart, is loaded before anything
    is computed."""
    layouts, tile, streams = planned.group.segment.layouts, planned.tile, planned.streams
    if planned.row is not None:
        return RowAccesses(layouts, planned.row, tensors)
    if tile is None:
        is_flat = planned.lane is not None and planned.group.nests[0].is_flat
        is_kept = is_flat or planned.is_apart
        return Accesses(
            layouts,
            planned.lane,
            tensors,
            streams,
            is_kept=lambda offset: is_kept,
            leaves_out=True,
            carries=True,
            reaches=True,
        )
    return TurnedAccesses(layouts, tile, tile.lane, tensors, streams, lambda tv, offset: "[k]")
