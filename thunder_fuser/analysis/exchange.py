"""Move elements between simulated devices: one collective at a time, counted.

A device's share of a tensor is a map from global index to value. A step along one mesh dim
exchanges elements within each group of devices that differ in that coordinate only (docs/axes.md,
M).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import product

from thunder_fuser.analysis.blocks import ring_source
from thunder_fuser.analysis.communication import Communication, Kind
from thunder_fuser.analysis.digits import Form, atom, ceil_div, evaluate
from thunder_fuser.analysis.edge import AxisEdge
from thunder_fuser.analysis.placement import Replicate, Shard, Sharding, StridedShard
from thunder_fuser.analysis.propagate import EdgePlan
from thunder_fuser.analysis.sharding import locate
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.ir.scalar import Number
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import op

Point = tuple[int, ...]
Held = dict[Point, Number]  # global index -> value
Coordinates = tuple[int, ...]


def narrow(plan: EdgePlan, shards: Mapping[Coordinates, Held]) -> dict[Coordinates, Held]:
    """Before anything is sent every device drops what its part of the consumer does not read: along
    the mesh dims without a step that is a local slice."""
    moving = {step.mesh_dim for step in plan.before}
    still = [dim for dim in range(plan.target.mesh.ndim) if dim not in moving]
    needed = {dim: _needed(plan.edge, plan.computed, dim) for dim in still} if moving else {}
    return {
        where: {p: v for p, v in held.items() if all(p in n[where[d]] for d, n in needed.items())}
        for where, held in shards.items()
    }


def communicate(
    plan: EdgePlan, step: Communication, held: dict[Coordinates, Held], target: Sharding
) -> tuple[dict[Coordinates, Held], int]:
    """One collective along `step.mesh_dim`: who holds what afterwards, the most one received."""
    needed = _needed(plan.edge, target, step.mesh_dim)
    count = target.mesh.shape[step.mesh_dim]
    after: dict[Coordinates, Held] = {}
    most = 0
    for where in held:
        group = [(*where[: step.mesh_dim], k, *where[step.mesh_dim + 1 :]) for k in range(count)]
        wanted = needed[where[step.mesh_dim]]
        if step.kind in (Kind.ALL_REDUCE, Kind.REDUCE_SCATTER):
            after[where] = _reduced(step.reduction, [held[g] for g in group], wanted)
            most = max(most, _ring_receives(step.kind, len(after[where]), count))
            continue
        if step.kind is Kind.RING:
            source = ring_source(where[step.mesh_dim], step.distance, count)
            group = [group[source]]
        elif step.kind is Kind.ALL_GATHER:
            wanted = set().union(*needed)
        after[where] = {p: v for g in group for p, v in held[g].items() if p in wanted}
        most = max(most, sum(p not in held[where] for p in after[where]))
    return after, most


def _ring_receives(kind: Kind, kept: int, count: int) -> int:
    """Elements that a device receives when a reduction goes round a ring: count - 1 times its part;
    an all-reduce gathers the parts afterwards."""
    if kind is Kind.REDUCE_SCATTER:
        return kept * (count - 1)
    return ceil_div(2 * kept * (count - 1), count)


def _reduced(name: str, terms: list[Held], wanted: set[Point]) -> Held:
    return {p: combine(name, [t[p] for t in terms]) for p in terms[0] if p in wanted}


def combine(name: str, values: Sequence[Number]) -> Number:
    """A reduction row's combine step over numbers, its identity for none. Raises ValueError for a
    row that Python has no operator for."""
    row = op(name)
    if row.combine not in _OPERATORS:
        raise ValueError(f"the simulator cannot combine by {name}: {row.combine!r}")
    step, identity = _OPERATORS[row.combine]
    return reduce(step, values, identity)


_OPERATORS: dict[str, tuple[Callable[[Number, Number], Number], Number]] = {
    "{0} + {1}": (operator.add, 0),
    "{0} * {1}": (operator.mul, 1),
    "tf::maximum({0}, {1})": (lambda a, b: max(a.real, b.real), -math.inf),
    "tf::minimum({0}, {1})": (lambda a, b: min(a.real, b.real), math.inf),
    "{0} || {1}": (lambda a, b: bool(a or b), False),
    "{0} && {1}": (lambda a, b: bool(a and b), True),
}


def _needed(edge: AxisEdge, target: Sharding, dim: int) -> list[set[Point]]:
    """Per coordinate on mesh dim `dim`: the producer elements its consumer elements read."""
    device = edge.from_consumer(target).devices[dim]
    needed: list[set[Point]] = [set() for _ in range(target.mesh.shape[dim])]
    for at in points(edge.consumer.domain.logical):
        point = read(edge, at)
        if point is not None:
            if device is None:
                for wanted in needed:
                    wanted.add(point)
            else:
                needed[evaluate(device, at)].add(point)
    return needed


def read(edge: AxisEdge, at: Mapping[IterDomain, int]) -> Point | None:
    """The producer element behind a consumer point, None outside its windows."""
    if not all(0 <= evaluate(w.form, at) < w.extent for w in edge.windows):
        return None
    return tuple(evaluate(form, at) for form in edge.index)


def points(axes: Sequence[IterDomain]) -> Iterator[dict[IterDomain, int]]:
    """Every combination of values of the axes, the last one fastest."""
    for point in product(*(range(a.size) for a in axes)):
        yield dict(zip(axes, point, strict=True))


def finish(
    tensor: TensorView, sharding: Sharding, step: Communication, held: dict[Coordinates, Held]
) -> tuple[dict[Coordinates, Held], int]:
    """Complete a partial result along one mesh dim."""
    dim, count = step.mesh_dim, sharding.mesh.shape[step.mesh_dim]
    after, most = {}, 0
    for where in held:
        group = [(*where[:dim], k, *where[dim + 1 :]) for k in range(count)]
        wanted = set(owned_points(tensor, sharding, where))
        after[where] = _reduced(step.reduction, [held[g] for g in group], wanted)
        most = max(most, _ring_receives(step.kind, len(after[where]), count))
    return after, most


def owned_points(tensor: TensorView, sharding: Sharding, where: Coordinates) -> list[Point]:
    """The global indices of the shard at `where`, row-major."""
    axes = tensor.logical
    kept = []
    for k, axis in enumerate(axes):
        mine = [
            p if isinstance(p, Shard | StridedShard) and p.axis == k else Replicate()
            for p in sharding.placements
        ]
        index = tuple(atom(a) for a in axes)
        devices = locate(Sharding(sharding.mesh, tuple(mine)), index, tensor.shape).devices
        kept.append([i for i in range(axis.size) if is_at(devices, {axis: i}, where)])
    return list(product(*kept))


def is_at(devices: Sequence[Form | None], at: Mapping[IterDomain, int], where: Coordinates) -> bool:
    """True where the device of what lies at a point is the one at coordinates `where`."""
    return all(d is None or evaluate(d, at) == w for d, w in zip(devices, where, strict=True))
