"""Run a sharding plan on simulated devices in one process, and count what is sent.

Every device holds only its shard of each tensor. An edge first runs its communication steps, which
move elements between the devices of one mesh dim; then every device computes its shard of the
consumer from what it holds, and nothing else: a value that is not there is an error of the plan.
Values are Python numbers, so integers compare bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType

from thunder_fuser.analysis.communication import Communication
from thunder_fuser.analysis.exchange import (
    Coordinates,
    Held,
    Point,
    combine,
    communicate,
    finish,
    is_at,
    narrow,
    owned_points,
    points,
    read,
)
from thunder_fuser.analysis.placement import Partial, Sharding
from thunder_fuser.analysis.propagate import EdgePlan, ShardingPlan
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.ir.scalar import Number, Scalar
from thunder_fuser.ir.tensor import Expr, TensorView, Value
from thunder_fuser.ops import Family


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
        placements = self.plan.shardings[tensor].placements
        pending = [isinstance(p, Partial) for p in placements]
        name = next((p.op for p in placements if isinstance(p, Partial)), "sum")
        values: dict[Point, Number] = {}
        terms: dict[Point, dict[Coordinates, Number]] = {}
        for where, held in self.shards[tensor].items():
            for point, value in held.items():
                term = tuple(c for c, p in zip(where, pending, strict=True) if p)
                if terms.setdefault(point, {}).setdefault(term, value) != value:
                    raise ValueError(f"devices disagree on element {point}")
        for point, parts in terms.items():
            values[point] = combine(name, list(parts.values()))
        return [values[p] for p in product(*map(range, tensor.shape))]

    def buffer(self, tensor: TensorView, where: Coordinates) -> list[Number]:
        """The local buffer of one device, row-major."""
        return [value for _, value in sorted(self.shards[tensor][where].items())]


def simulate(
    plan: ShardingPlan,
    inputs: Mapping[TensorView, Sequence[Number]],
    scalars: Mapping[Scalar, Number] = MappingProxyType({}),
) -> Run:
    """Run `plan` on the global row-major values of the fusion's tensor inputs, and its scalar ones.

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
            held = narrow(edge_plan, shards[edge_plan.edge.producer])
            for step in edge_plan.before:
                held, received = communicate(edge_plan, step, held, edge_plan.computed)
                traffic.append(Traffic(step, tensor, received))
            operands.append(held)
        made = _compute(tensor, plans, operands, sharding, scalars)
        for step in plans[0].after if plans else ():
            made, received = finish(tensor, sharding, step, made)
            traffic.append(Traffic(step, tensor, received))
        shards[tensor] = made
    return Run(plan, shards, tuple(traffic))


def scatter(
    tensor: TensorView, sharding: Sharding, values: Sequence[Number]
) -> dict[Coordinates, Held]:
    """The shard of every device. Of a partial tensor the first device has the value, the others the
    identity of its op."""
    whole = dict(zip(product(*map(range, tensor.shape)), values, strict=True))
    pending = [isinstance(p, Partial) for p in sharding.placements]
    name = next((p.op for p in sharding.placements if isinstance(p, Partial)), "sum")
    neutral = combine(name, ())
    shards = {}
    for where in sharding.mesh.coordinates:
        is_first = not any(c for c, p in zip(where, pending, strict=True) if p)
        owned = owned_points(tensor, sharding, where)
        shards[where] = {point: whole[point] if is_first else neutral for point in owned}
    return shards


def _compute(
    tensor: TensorView,
    plans: Sequence[EdgePlan],
    operands: Sequence[dict[Coordinates, Held]],
    sharding: Sharding,
    scalars: Mapping[Scalar, Number],
) -> dict[Coordinates, Held]:
    """Every device's shard of `tensor` (still partial where the plan reduces afterwards)."""
    computed = plans[0].computed if plans else sharding
    made = {}
    for where in sharding.mesh.coordinates:
        held = [o[where] for o in operands]
        made[where] = {
            point: _element(tensor, plans, held, point, where, scalars)
            for point in owned_points(tensor, computed, where)
        }
    return made


def _element(
    tensor: TensorView,
    plans: Sequence[EdgePlan],
    held: Sequence[Held],
    point: Point,
    where: Coordinates,
    scalars: Mapping[Scalar, Number],
) -> Number:
    expr = tensor.expr
    at = dict(zip(tensor.logical, point, strict=True))
    if expr.op.family is Family.REDUCTION:
        return _reduce_local(plans[0], held[0], at, where)
    values: list[Number | None] = []
    for plan, mine in zip(plans, held, strict=True):
        source = read(plan.edge, at)
        if source is None:
            values.append(None)
        elif source not in mine:
            raise ValueError(
                f"device {where} needs element {source} of operand {plan.edge.operand} of "
                f"{expr.op.name} for its element {point}, and the plan did not bring it"
            )
        else:
            values.append(mine[source])
    return _apply(expr, values, tensor, scalars)


def _apply(
    expr: Expr,
    values: Sequence[Number | None],
    tensor: TensorView,
    scalars: Mapping[Scalar, Number],
) -> Number:
    present = [v for v in values if v is not None]
    match expr.op.family:
        case Family.VIEW | Family.CAT:
            return present[0]
        case Family.PAD:
            return present[0] if present else _number(expr.inputs[-1], scalars)
        case Family.FULL:
            return _number(expr.inputs[0], scalars)
        case Family.POINTWISE:
            tensors = iter(present)
            args = [
                next(tensors) if isinstance(v, TensorView) else _number(v, scalars)
                for v in expr.inputs
            ]
            return sc.evaluate_row(expr.op, args, tensor.dtype)
        case _:
            raise ValueError(f"the simulator has no rule for {expr.op.name}")


def _number(value: Value, scalars: Mapping[Scalar, Number]) -> Number:
    assert not isinstance(value, TensorView)
    bound = sc.bind(value, scalars)
    if not isinstance(bound, sc.Constant):
        raise ValueError(f"the simulator is not given the value of {bound}")
    return bound.value


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
    for reduced in points([a for a in edge.consumer.domain.logical if a.is_reduction]):
        here = {**at, **reduced}
        if is_at(own, here, where):
            source = read(edge, here)
            assert source is not None
            terms.append(held[source])
    return combine(edge.consumer.expr.op.name, terms)
