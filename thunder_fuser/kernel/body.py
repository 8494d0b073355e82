"""One iteration class to one body: elements become lane statements, accesses become vectors."""

from __future__ import annotations

from collections.abc import Mapping

from thunder_fuser.analysis.access import demand
from thunder_fuser.analysis.layout import offset_of
from thunder_fuser.ir.scalar import Scalar
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.elements import ElementWriter
from thunder_fuser.kernel.map_ir import Body, Turning
from thunder_fuser.kernel.turning import TurnedAccesses
from thunder_fuser.kernel.vectors import Accesses
from thunder_fuser.schedule.flatten import without_carries
from thunder_fuser.schedule.nest import instances
from thunder_fuser.schedule.vectorize import VectorClass


def lower_class(
    planned: VectorClass,
    tensors: Mapping[TensorView, str],
    scalars: Mapping[Scalar, str],
    strict: bool,
) -> Body:
    """The body that runs one iteration class."""
    segment = planned.group.segment
    accesses = _accesses(planned, tensors)
    stores = [(nest, index) for nest in planned.group.nests for index in instances(nest)]
    needs = demand(
        [(nest.store.value, index) for nest, index in stores], segment.leaves, planned.is_uniform
    )
    speculates = any(needs.windows())
    writer = ElementWriter(segment, tensors, scalars, accesses, strict, speculates)
    before = writer.locate(filter(planned.is_uniform, needs.places))
    writer.request(needs)
    loads = accesses.group_loads()
    writer.evaluate(needs)
    targets = []
    for nest, index in stores:
        offset = offset_of(segment.layouts[nest.store.target], index)
        targets.append((nest.store.target, offset, writer.values[nest.store.value, index]))
    writes, vectors = accesses.group_stores(targets)
    statements = (*writer.statements, *writes)
    turning = None
    if planned.tile is not None and isinstance(accesses, TurnedAccesses):
        turning = Turning(planned.tile, accesses.turned_loads, accesses.stores)
    axes, lane = planned.axes, planned.lane
    found, inside = without_carries(planned), None
    if found is not None:
        inside = (found[0], lower_class(found[1], tensors, scalars, strict))
    return Body(axes, lane, planned.lanes, loads, statements, vectors, before, turning, inside)


def _accesses(planned: VectorClass, tensors: Mapping[TensorView, str]) -> Accesses:
    layouts, tile, streams = planned.group.segment.layouts, planned.tile, planned.streams
    if tile is None:
        return Accesses(layouts, planned.lane, tensors, streams, leaves_out=True, carries=True)
    return TurnedAccesses(layouts, tile, tile.lane, tensors, streams, lambda tv, offset: "[k]")
