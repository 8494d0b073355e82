"""What must be sent on an edge whose two sides are fixed: the cheapest right collective, and why.

                     consumer replicated      consumer cut, digits equal / a rotation / other
    producer cut     all-gather               nothing / ring / all-to-all
    partial          all-reduce               reduce-scatter
    replicated       nothing                  nothing (a local slice)

One mesh dim at a time: the coordinates of an element on two mesh dims are independent, so the steps
compose in any order. They run in the order of `Kind`: those that leave less to send come first.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from math import prod

from thunder_fuser.analysis.digits import Form, ceil_div, format_form
from thunder_fuser.analysis.edge import AxisEdge, turned
from thunder_fuser.analysis.placement import Partial, Sharding


class Kind(IntEnum):
    """Collectives, in the order in which they run on one edge."""

    REDUCE_SCATTER = 0
    RING = 1
    ALL_TO_ALL = 2
    ALL_REDUCE = 3
    ALL_GATHER = 4

    def __str__(self) -> str:
        return "ring rotation" if self is Kind.RING else self.name.lower().replace("_", "-")


@dataclass(frozen=True)
class Communication:
    """One collective along one mesh dim. `bytes` is the most that any device receives, reductions
    run in a ring; `distance` is for a rotation: rank r sends to r - distance. `reduction` names the
    op of a reducing one."""

    kind: Kind
    mesh_dim: int
    bytes: int
    why: str
    distance: int = 0
    reduction: str = ""

    def __str__(self) -> str:
        by = f" by {self.distance}" if self.kind is Kind.RING else ""
        return f"{self.kind}{by} on mesh dim {self.mesh_dim}, {self.bytes} bytes: {self.why}"


def plan_edge(edge: AxisEdge, source: Sharding, target: Sharding) -> tuple[Communication, ...]:
    """The steps after which every device holds what it needs of the producer, in order; empty where
    it already does. The consumer is `target`, the producer `source`; same mesh.

    Raises ValueError for different meshes, or a consumer that is partial where nothing makes it so.
    """
    if source.mesh != target.mesh:
        raise ValueError(
            f"producer on {source.mesh}, consumer on {target.mesh}: all tensors of a fusion share "
            "one mesh; move the data between meshes outside"
        )
    have, want = edge.from_producer(source).devices, edge.from_consumer(target)
    elements, itemsize = _needed_elements(edge, want.extents), edge.producer.dtype.itemsize
    steps = []
    for dim, count in enumerate(source.mesh.shape):
        pending, device, needed = source.placements[dim], have[dim], want.devices[dim]
        if needed is not None and not needed.bases & edge.bases:
            needed = None  # cut along an axis that the producer does not have: all of it is needed
        if isinstance(target.placements[dim], Partial):
            _check_partial(edge, device, source, target, dim)
        elif isinstance(pending, Partial):
            steps.append(_reduce(dim, count, needed, elements, itemsize, pending.op))
        elif device is not None and device != needed:
            steps.append(_move(edge, source, dim, device, needed, elements * itemsize))
    return tuple(sorted(steps, key=lambda step: step.kind))


def finish_partial(
    edge: AxisEdge, partial: Sharding, target: Sharding
) -> tuple[Communication, ...]:
    """The reductions over devices that turn the consumer, computed as `partial`, into `target`."""
    location = edge.from_consumer(target)
    elements, itemsize = prod(location.extents), edge.consumer.dtype.itemsize
    counts = partial.mesh.shape
    return tuple(
        _reduce(dim, counts[dim], location.devices[dim], elements, itemsize, pending.op)
        for dim, pending in enumerate(partial.placements)
        if isinstance(pending, Partial) and not isinstance(target.placements[dim], Partial)
    )


def _reduce(
    dim: int, count: int, needed: Form | None, elements: int, itemsize: int, op: str
) -> Communication:
    if needed is None:
        received = ceil_div(2 * elements * (count - 1), count)
        why = f"each device holds a term of the {op} and needs the whole"
        return Communication(Kind.ALL_REDUCE, dim, received * itemsize, why, reduction=op)
    received = elements * (count - 1)
    why = f"each device holds a term of the {op} and needs its own part"
    return Communication(Kind.REDUCE_SCATTER, dim, received * itemsize, why, reduction=op)


def _move(
    edge: AxisEdge, source: Sharding, dim: int, have: Form, needed: Form | None, received: int
) -> Communication:
    if needed is None:
        why = f"{source.placements[dim]} of the producer is needed on every device"
        return Communication(Kind.ALL_GATHER, dim, received, why)
    ring = turned(edge, source, dim)
    if ring is not None and ring[0] == needed:
        why = f"the window starts {ring[1]} blocks past an aligned one (docs/axes.md, B3)"
        return Communication(Kind.RING, dim, received, why, distance=ring[1])
    names = {axis: f"i{k}" for k, axis in enumerate(edge.consumer.domain.logical)}
    mine, theirs = format_form(have, names), format_form(needed, names)
    why = f"in the consumer's axes the producer is on device {mine}, the consumer on {theirs}"
    return Communication(Kind.ALL_TO_ALL, dim, received, why)


def _needed_elements(edge: AxisEdge, local_extents: tuple[int, ...]) -> int:
    """The most producer elements that one device reads."""
    held = prod(
        extent
        for own, extent in zip(edge.own, local_extents, strict=True)
        if own.bases and own.bases <= edge.bases
    )
    summed = prod(axis.size for axis in edge.reduced & edge.bases)
    return min(held * summed, prod(edge.producer.shape))


def _check_partial(
    edge: AxisEdge, have: Form | None, source: Sharding, target: Sharding, dim: int
) -> None:
    """A partial result needs a reduced axis that is cut there, or a pending one passed on."""
    passes = source.placements[dim] == target.placements[dim] and edge.keeps_partial
    cuts = have is not None and bool(have.bases) and have.bases <= edge.reduced
    if not passes and not cuts:
        raise ValueError(
            f"{target} makes the result partial on mesh dim {target.mesh.dim_name(dim)}, but the "
            f"operand {source} has no cut of a reduced axis there; annotate the operand or "
            "replicate the result"
        )
