"""Give every tensor of a fusion a sharding, and every edge the communication that it then needs.

    T0: S(0, strided by 3)                      annotated
    T1 = slice(T0, 8, 16)                  =>   T1: S(0), no communication, local view at 4
    T2 = mul(T1, T3)                       =>   T2: S(0); T3: S(0), backward

Forward, then backward, then forward for what the backward pass has reached; annotated tensors are
fixed, and what nothing reaches is replicated. A tensor whose edge cannot stay aligned takes the
placement that costs the fewest bytes. A device digit on a reduced axis makes a partial result; it
is never propagated backward.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TypeGuard

from thunder_fuser.analysis.communication import Communication, Kind, finish_partial, plan_edge
from thunder_fuser.analysis.edge import (
    AxisEdge,
    axis_edges,
    backward,
    forward,
    local_starts,
    turned,
)
from thunder_fuser.analysis.placement import (
    Partial,
    Placement,
    Replicate,
    Shard,
    Sharding,
    StridedShard,
    replicated,
)
from thunder_fuser.analysis.sharding import check_sizes, local_shape, place
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.mesh import DeviceMesh
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ir.text import tensor_names
from thunder_fuser.ops import Family

_WHOLE = (
    Family.GATHER,
    Family.SCAN,
    Family.GROUPED,
    Family.PICKED,
    Family.ORDER,
    Family.STAGE,
)  # need all of an axis


@dataclass(frozen=True, eq=False)
class EdgePlan:
    """`before` brings the operand where the consumer needs it, `after` completes a partial result.
    `computed` is the consumer's sharding between the two."""

    edge: AxisEdge
    source: Sharding
    computed: Sharding
    target: Sharding
    before: tuple[Communication, ...]
    after: tuple[Communication, ...] = ()

    @property
    def is_aligned(self) -> bool:
        return not self.before and not self.after

    @cached_property
    def starts(self) -> tuple[int, ...] | None:
        """For an aligned window: where the local view begins, per axis of the local operand."""
        aligned = self.is_aligned and self.edge.is_view
        return local_starts(self.edge, self.source, self.target) if aligned else None


@dataclass(frozen=True, eq=False)
class ShardingPlan:
    """`shardings` has every tensor of the fusion, `edges` every tensor operand, in order."""

    fusion: Fusion
    mesh: DeviceMesh
    shardings: Mapping[TensorView, Sharding]
    edges: tuple[EdgePlan, ...]

    @cached_property
    def communications(self) -> tuple[Communication, ...]:
        """Each collective once: what makes a tensor whole serves all its consumers."""
        found: dict[tuple[object, ...], Communication] = {}
        for k, plan in enumerate(self.edges):
            for step in plan.before:
                whole = step.kind in (Kind.ALL_REDUCE, Kind.ALL_GATHER) and len(plan.before) == 1
                found.setdefault(
                    (plan.edge.producer, step.kind, step.mesh_dim) if whole else (k, step), step
                )
            for step in plan.after:
                found.setdefault((plan.edge.consumer, step.kind, step.mesh_dim), step)
        return tuple(found.values())

    def __str__(self) -> str:
        names = tensor_names(self.fusion)
        lines = [f"sharding on {self.mesh}"]
        by_consumer: dict[TensorView, list[EdgePlan]] = {}
        for plan in self.edges:
            by_consumer.setdefault(plan.edge.consumer, []).append(plan)
        for tensor in self.fusion.tensors:
            made = tensor.definition
            op = f" = {made.op.name}" if made is not None else self._bound(tensor)
            lines.append(f"  {names[tensor]}: {self.shardings[tensor]}{op}")
            for plan in by_consumer.get(tensor, ()):
                lines += [f"    {names[plan.edge.producer]}: {text}" for text in _describe(plan)]
        return "\n".join(lines)

    def _bound(self, tensor: TensorView) -> str:
        """What devices bind to an input: the shapes of their shards, in order of size."""
        sharding = self.shardings[tensor]
        shapes = {local_shape(sharding, tensor.shape, at) for at in self.mesh.coordinates}
        return f", bound as {' or '.join(str(list(s)) for s in sorted(shapes, reverse=True))}"


def propagate(
    fusion: Fusion, mesh: DeviceMesh, annotations: Mapping[TensorView, Sharding]
) -> ShardingPlan:
    """The plan for `fusion` on `mesh` with the shardings of `annotations` fixed.

    Raises ValueError for an annotation on another mesh, of another rank, or on a tensor that is not
    in the fusion; for symbolic extents; for a result annotated partial that nothing makes partial;
    for an axis cut over devices that is gathered from or summed along.
    """
    names = tensor_names(fusion)
    for tensor, sharding in annotations.items():
        if tensor not in names:
            raise ValueError(f"a sharding {sharding} is given for a tensor outside the fusion")
        if sharding.mesh != mesh:
            raise ValueError(
                f"{names[tensor]} is annotated on {sharding.mesh}, the fusion runs on {mesh}; "
                "all tensors of a fusion share one mesh"
            )
    for tensor in fusion.tensors:
        check_sizes(annotations.get(tensor, replicated(mesh)), tensor.extents, names[tensor])
    return _Propagation(fusion, mesh, dict(annotations)).plan()


class _Propagation:
    def __init__(self, fusion: Fusion, mesh: DeviceMesh, known: dict[TensorView, Sharding]) -> None:
        self.fusion, self.mesh, self.known = fusion, mesh, known
        self.edges = {tv: axis_edges(tv) for tv in fusion.tensors if tv.definition is not None}

    def plan(self) -> ShardingPlan:
        for step in (self._forward, self._backward, self._forward):
            self._join_writes()
            step()
        self._join_writes()
        for tensor in self.fusion.tensors:
            self.known.setdefault(tensor, replicated(self.mesh))
        self._check_whole_axes()
        plans = [self._edge_plan(e) for edges in self.edges.values() for e in edges]
        return ShardingPlan(self.fusion, self.mesh, self.known, tuple(plans))

    def _join_writes(self) -> None:
        """What is written lies as its target does."""
        for write in self.fusion.writes:
            value, target = (self.known.get(tv) for tv in (write.value, write.target))
            if value is None and target is not None:
                self.known[write.value] = target
            elif target is None and value is not None:
                self.known[write.target] = value
            elif value != target:
                raise ValueError(
                    f"a value sharded {value} is written into an input sharded {target}; annotate "
                    "both alike, or copy the value first and annotate the copy"
                )

    def _forward(self) -> None:
        for consumer, edges in self.edges.items():
            sources = [e for e in edges if e.producer in self.known]
            if consumer not in self.known and sources:
                self.known[consumer] = self._from_operands(sources)

    def _backward(self) -> None:
        for consumer in reversed(self.fusion.tensors):
            if consumer not in self.known:
                continue
            for edge in self.edges.get(consumer, ()):
                if edge.producer not in self.known:
                    wanted = backward(edge, self.known[consumer])
                    found = tuple(p if _is_cut(p) else Replicate() for p in wanted)
                    self.known[edge.producer] = Sharding(self.mesh, found)

    def _from_operands(self, edges: list[AxisEdge]) -> Sharding:
        """The sharding of the operand with the most elements cut, gaps filled from the others."""
        ranked = sorted(edges, key=lambda e: -_weight(e, self.known[e.producer]))
        lead = ranked[0]
        placements = list(self._carried(lead))
        for edge in ranked[1:]:
            for dim, other in enumerate(forward(edge, self.known[edge.producer])):
                if isinstance(placements[dim], Replicate) and _is_cut(other):
                    trial = [*placements[:dim], other, *placements[dim + 1 :]]
                    if _agrees(
                        edge, self.known[edge.producer], Sharding(self.mesh, tuple(trial)), dim
                    ):
                        placements = trial
        return Sharding(self.mesh, tuple(placements))

    def _carried(self, edge: AxisEdge) -> tuple[Placement, ...]:
        """The producer's placements seen by the consumer; what cannot be carried takes the cheapest
        placement among a rotated one, a plain shard of the same data axis, and a replica."""
        source = self.known[edge.producer]
        carried = forward(edge, source)
        found = [Replicate() if p is None else p for p in carried]
        for dim, placement in enumerate(carried):
            if placement is None:
                found[dim] = self._cheapest(edge, source, found, dim)
        return tuple(found)

    def _cheapest(
        self, edge: AxisEdge, source: Sharding, found: list[Placement], dim: int
    ) -> Placement:
        def cost(placement: Placement) -> int:
            trial = Sharding(self.mesh, (*found[:dim], placement, *found[dim + 1 :]))
            return sum(step.bytes for step in plan_edge(edge, source, trial))

        return min(self._options(edge, source, found, dim), key=cost)

    def _options(
        self, edge: AxisEdge, source: Sharding, found: list[Placement], dim: int
    ) -> Iterator[Placement]:
        count = self.mesh.shape[dim]
        device = edge.from_producer(source).devices[dim]
        so_far = Sharding(self.mesh, (*found[:dim], *(Replicate(),) * (self.mesh.ndim - dim)))
        location = edge.from_consumer(so_far)
        ring = turned(edge, source, dim)
        if ring is not None:
            rotated = place(ring[0], location.local, location.extents, count)
            if rotated is not None:
                yield rotated.placement
        for k, own in enumerate(edge.own):
            touched = device is not None and bool(own.bases & device.bases)
            taken = any(_is_cut(p) and p.axis == k for p in found)
            if touched and not taken and edge.consumer.shape[k] >= count:
                yield Shard(k)
        yield Replicate()

    def _check_whole_axes(self) -> None:
        """A gather may read any index of its axis, a running sum needs all before it, and an order
        is one of all elements."""
        for consumer, edges in self.edges.items():
            expr = consumer.expr
            if expr.op.family not in _WHOLE:
                continue
            dim = dict(expr.attrs).get("dim", 0)
            sharding = self.known[edges[0].producer]
            pairs = zip(sharding.placements, self.mesh.shape, strict=True)
            if any(_is_cut(p) and p.axis == dim and count > 1 for p, count in pairs):
                raise ValueError(
                    f"{expr.op.name} needs dim {dim} of its operand whole on every device, and it "
                    f"lies {sharding}; place it replicated there"
                )

    def _edge_plan(self, edge: AxisEdge) -> EdgePlan:
        source, target = self.known[edge.producer], self.known[edge.consumer]
        natural = forward(edge, source) if edge.reduced else ()
        computed = list(target.placements)
        for dim, placement in enumerate(natural):
            if isinstance(placement, Partial) and not isinstance(source.placements[dim], Partial):
                computed[dim] = placement
        partial = Sharding(self.mesh, tuple(computed))
        before = plan_edge(edge, source, partial)
        return EdgePlan(
            edge, source, partial, target, before, finish_partial(edge, partial, target)
        )


def _is_cut(placement: Placement | None) -> TypeGuard[Shard | StridedShard]:
    return isinstance(placement, Shard | StridedShard)


def _weight(edge: AxisEdge, sharding: Sharding) -> int:
    """Elements times mesh dims that cut them; any annotated tensor outweighs a replica."""
    cuts = sum(not isinstance(p, Replicate) for p in sharding.placements)
    return cuts * prod(edge.producer.shape)


def _agrees(edge: AxisEdge, source: Sharding, target: Sharding, dim: int) -> bool:
    return edge.from_producer(source).devices[dim] == edge.from_consumer(target).devices[dim]


def _describe(plan: EdgePlan) -> Iterator[str]:
    for step in plan.before:
        yield str(step)
    for step in plan.after:
        yield f"then {step}"
    if plan.is_aligned:
        starts = plan.starts
        window = f", local view at {list(starts)}" if starts is not None and any(starts) else ""
        yield f"{plan.source} aligned, no communication{window}"
