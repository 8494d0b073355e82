"""Run a sharding plan on simulated devices in one process, and count what is sent.

Every device holds only its shard of each tensor. An edge first runs its communication steps, which
move elements between the devices of one mesh dim; then every device computes its shard of the
consumer from what it holds, and nothing else: a value that is not there is an error of the plan.
Values are Python numbers, so integers compare bit for bit.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product

from thunder_fuser.analysis.blocks import ring_source
from thunder_fuser.analysis.communication import Communication, Kind
from thunder_fuser.analysis.digits import Form, atom, ceil_div, evaluate
from thunder_fuser.analysis.edge import AxisEdge
from thunder_fuser.analysis.placement import Partial, Replicate, Shard, Sharding, StridedShard
from thunder_fuser.analysis.propagate import EdgePlan, ShardingPlan
from thunder_fuser.analysis.sharding import locate
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.ir.scalar import Number
from thunder_fuser.ir.tensor import Expr, TensorView
from thunder_fuser.ops import Family, op

Point = tuple[int, ...]
Held = dict[Point, Number]  # global index -> value
Coordinates = tuple[int, ...]


@dataclass(frozen=True)
class Traffic:
    """One collective that ran: `received` is the most elements that any device was sent."""

    step: Communication
    consumer: TensorView
    received: int


@dataclass(frozen=True)
class Run:
    """What each device holds of each tensor, by coordinate, and the collectives that ran."""

    plan: ShardingPlan
    shards: Mapping[TensorView, Mapping[Coordinates, Held]]
    traffic: tuple[Traffic, ...]

    def whole(self, tensor: TensorView) -> list[Number]:
        """The global tensor, row-major, put together from all devices. Raises ValueError where two
        devices disagree on an element or none has it."""
        pending = [isinstance(p, Partial) for p in self.plan.shardings[tensor].placements]
        values: dict[Point, Number] = {}
        terms: dict[Point, dict[Coordinates, Number]] = {}
        for where, held in self.shards[tensor].items():
            for point, value in held.items():
                term = tuple(c for c, p in zip(where, pending, strict=True) if p)
                if terms.setdefault(point, {}).setdefault(term, value) != value:
                    raise ValueError(f"devices disagree on element {point}")
        for point, parts in terms.items():
            values[point] = sum(parts.values())
        return [values[p] for p in product(*map(range, tensor.shape))]

    def buffer(self, tensor: TensorView, where: Coordinates) -> list[Number]:
        """The local buffer of one device, row-major."""
        return [value for _, value in sorted(self.shards[tensor][where].items())]


def simulate(plan: ShardingPlan, inputs: Mapping[TensorView, Sequence[Number]]) -> Run:
    """Run `plan` on the global row-major values of the fusion's tensor inputs.

    Raises ValueError where a device needs an element that the plan did not bring to it, or for an
    op that has no Python expression.
    """
    shards: dict[TensorView, dict[Coordinates, Held]] = {}
    traffic: list[Traffic] = []
    by_consumer: dict[TensorView, list[EdgePlan]] = {}
    for edge_plan in plan.edges:
        by_consumer.setdefault(edge_plan.edge.consumer, []).append(edge_plan)
    for tensor in plan.fusion.tensors:
        sharding = plan.shardings[tensor]
        if tensor.definition is None:
            shards[tensor] = scatter(tensor, sharding, inputs[tensor])
            continue
        plans = by_consumer.get(tensor, [])
        operands = []
        for edge_plan in plans:
            held = _narrow(edge_plan, shards[edge_plan.edge.producer])
            for step in edge_plan.before:
                held, received = _communicate(edge_plan, step, held, edge_plan.computed)
                traffic.append(Traffic(step, tensor, received))
            operands.append(held)
        made = _compute(tensor, plans, operands, sharding)
        for step in plans[0].after if plans else ():
            made, received = _finish(tensor, sharding, step, made)
            traffic.append(Traffic(step, tensor, received))
        shards[tensor] = made
    return Run(plan, shards, tuple(traffic))


def scatter(
    tensor: TensorView, sharding: Sharding, values: Sequence[Number]
) -> dict[Coordinates, Held]:
    """The shard of every device. Of a partial tensor the first device has the value, others 0."""
    whole = dict(zip(product(*map(range, tensor.shape)), values, strict=True))
    pending = [isinstance(p, Partial) for p in sharding.placements]
    shards = {}
    for where in sharding.mesh.coordinates:
        is_first = not any(c for c, p in zip(where, pending, strict=True) if p)
        owned = owned_points(tensor, sharding, where)
        shards[where] = {point: whole[point] if is_first else 0 for point in owned}
    return shards


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
        kept.append([i for i in range(axis.size) if _is_at(devices, {axis: i}, where)])
    return list(product(*kept))


def _is_at(
    devices: Sequence[Form | None], at: Mapping[IterDomain, int], where: Coordinates
) -> bool:
    return all(d is None or evaluate(d, at) == w for d, w in zip(devices, where, strict=True))


# ------------------------------------------------------------------ communication


def _narrow(plan: EdgePlan, shards: Mapping[Coordinates, Held]) -> dict[Coordinates, Held]:
    """Before anything is sent every device drops what its part of the consumer does not read: along
    the mesh dims without a step that is a local slice."""
    moving = {step.mesh_dim for step in plan.before}
    still = [dim for dim in range(plan.target.mesh.ndim) if dim not in moving]
    needed = {dim: _needed(plan.edge, plan.computed, dim) for dim in still} if moving else {}
    return {
        where: {p: v for p, v in held.items() if all(p in n[where[d]] for d, n in needed.items())}
        for where, held in shards.items()
    }


def _communicate(
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
}


def _needed(edge: AxisEdge, target: Sharding, dim: int) -> list[set[Point]]:
    """Per coordinate on mesh dim `dim`: the producer elements its consumer elements read."""
    device = edge.from_consumer(target).devices[dim]
    needed: list[set[Point]] = [set() for _ in range(target.mesh.shape[dim])]
    for at in _points(edge.consumer.domain.logical):
        point = _read(edge, at)
        if point is not None:
            if device is None:
                for wanted in needed:
                    wanted.add(point)
            else:
                needed[evaluate(device, at)].add(point)
    return needed


def _read(edge: AxisEdge, at: Mapping[IterDomain, int]) -> Point | None:
    """The producer element behind a consumer point, None outside its windows."""
    if not all(0 <= evaluate(w.form, at) < w.extent for w in edge.windows):
        return None
    return tuple(evaluate(form, at) for form in edge.index)


def _points(axes: Sequence[IterDomain]) -> Iterator[dict[IterDomain, int]]:
    for point in product(*(range(a.size) for a in axes)):
        yield dict(zip(axes, point, strict=True))


# -------------------------------------------------------------------- local compute


def _compute(
    tensor: TensorView,
    plans: Sequence[EdgePlan],
    operands: Sequence[dict[Coordinates, Held]],
    sharding: Sharding,
) -> dict[Coordinates, Held]:
    """Every device's shard of `tensor` (still partial where the plan reduces afterwards)."""
    computed = plans[0].computed if plans else sharding
    made = {}
    for where in sharding.mesh.coordinates:
        held = [o[where] for o in operands]
        made[where] = {
            point: _element(tensor, plans, held, point, where)
            for point in owned_points(tensor, computed, where)
        }
    return made


def _element(
    tensor: TensorView,
    plans: Sequence[EdgePlan],
    held: Sequence[Held],
    point: Point,
    where: Coordinates,
) -> Number:
    expr = tensor.definition
    assert expr is not None
    at = dict(zip(tensor.logical, point, strict=True))
    if expr.op.family is Family.REDUCTION:
        return _reduce_local(plans[0], held[0], at, where)
    values: list[Number | None] = []
    for plan, mine in zip(plans, held, strict=True):
        source = _read(plan.edge, at)
        if source is None:
            values.append(None)
        elif source not in mine:
            raise ValueError(
                f"device {where} needs element {source} of operand {plan.edge.operand} of "
                f"{expr.op.name} for its element {point}, and the plan did not bring it"
            )
        else:
            values.append(mine[source])
    return _apply(expr, values, tensor)


def _apply(expr: Expr, values: Sequence[Number | None], tensor: TensorView) -> Number:
    present = [v for v in values if v is not None]
    match expr.op.family:
        case Family.VIEW | Family.CAT:
            return present[0]
        case Family.PAD:
            return present[0] if present else _number(expr.inputs[-1])
        case Family.FULL:
            return _number(expr.inputs[0])
        case Family.POINTWISE:
            tensors = iter(present)
            args = [next(tensors) if isinstance(v, TensorView) else _number(v) for v in expr.inputs]
            return sc.evaluate_row(expr.op, args, tensor.dtype)
        case _:
            raise ValueError(f"the simulator has no rule for {expr.op.name}")


def _number(value: object) -> Number:
    if not isinstance(value, sc.Constant):
        raise ValueError(f"the simulator needs a constant, got {value}")
    return value.value


def _reduce_local(
    plan: EdgePlan, held: Held, at: dict[IterDomain, int], where: Coordinates
) -> Number:
    """The device's own term: over the reduced elements that lie on it."""
    edge = plan.edge
    devices = edge.from_producer(plan.source).devices
    own = [
        d if isinstance(p, Partial) else None
        for d, p in zip(devices, plan.computed.placements, strict=True)
    ]
    terms = []
    for reduced in _points([a for a in edge.consumer.domain.logical if a.is_reduction]):
        here = {**at, **reduced}
        if _is_at(own, here, where):
            source = _read(edge, here)
            assert source is not None
            terms.append(held[source])
    assert edge.consumer.definition is not None
    return combine(edge.consumer.definition.op.name, terms)


def _finish(
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
