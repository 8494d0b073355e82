"""The IdModel of a fusion: which axes of which tensors run over the same elements.

    T1[i2, i12] = reshape(T0[i24])       T1.logical0 ~ split(T0.logical0, 2)[0]     exact
    T2[i24] = reshape(T1)                T2.logical0 ~ T0.logical0                  almost exact

The maps differ by their seeds only, and each holds all pairs of the one before:

    exact          producer logical ~ consumer root, broadcast against data left out; siblings
    almost exact   exact, and groups with equal digit forms and extents, to a fixed point
    broadcast      exact, and a broadcast axis ~ the axis it is stretched to
    permissive     broadcast, and a merge with a broadcast ~ its other input

Sharding, aliasing and indexing through a slice or a cat are decided per edge, never by these maps
(docs/axes.md, section 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from thunder_fuser.analysis import explain_axes
from thunder_fuser.analysis.axis_forms import AxisForms
from thunder_fuser.analysis.digits import Form
from thunder_fuser.analysis.extents import Monomial
from thunder_fuser.analysis.val_graph import Reason, ValGraph
from thunder_fuser.ir.domain import IterDomain, Merge
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import Expr, TensorView
from thunder_fuser.ops import Family

EQUAL_FORMS = "equal digit forms and extents (docs/axes.md, theorem F)"


@dataclass(frozen=True, eq=False)
class IdModel:
    """The maps of one fusion, each built when first asked for."""

    fusion: Fusion

    @cached_property
    def exact(self) -> ValGraph:
        graph = ValGraph()
        for tensor in self.fusion.tensors:
            graph.add(*_axes(tensor))
        for pair, reason in _edge_pairs(self.fusion):
            if pair[0].is_broadcast == pair[1].is_broadcast:
                graph.map(*pair, reason)
        for pair, reason in _sibling_pairs(self.fusion):
            graph.map(*pair, reason)
        return graph

    @cached_property
    def almost_exact(self) -> ValGraph:
        domains = (
            domain
            for tensor in self.fusion.tensors
            for domain in (tensor.domain.logical, tensor.domain.loop)
        )
        return close_over_forms(self.exact, domains)

    @cached_property
    def broadcast(self) -> ValGraph:
        graph = self.exact.copy()
        for pair, reason in _edge_pairs(self.fusion):
            graph.map(*pair, reason)
        for pair, reason in _stretched_pairs(self.fusion):
            graph.map(*pair, reason)
        return graph

    @cached_property
    def permissive(self) -> ValGraph:
        graph = self.broadcast.copy()
        for group in graph.groups():
            for axis in graph.group(group):
                if isinstance(axis.definition, Merge):
                    _forward_merge(graph, axis, axis.definition)
        return graph

    def why_mapped(self, a: IterDomain, b: IterDomain, graph: ValGraph | None = None) -> str:
        """The chain of reasons for which `a` and `b` are mapped in `graph` (almost exact, unless
        said otherwise). Raises ValueError where they are not."""
        return explain_axes.why_mapped(self.fusion, graph or self.almost_exact, a, b)

    def why_not(self, a: IterDomain, b: IterDomain, graph: ValGraph | None = None) -> str:
        """Why `a` and `b` are not mapped, with a point where they differ. Raises ValueError where
        they are."""
        return explain_axes.why_not(self.fusion, graph or self.almost_exact, a, b)

    def __str__(self) -> str:
        return explain_axes.print_groups(self.fusion, self.almost_exact)


def close_over_forms(exact: ValGraph, domains: Iterable[tuple[IterDomain, ...]] = ()) -> ValGraph:
    """`exact` and every pair of groups with equal extents and digit forms, to a fixed point.
    Resizes are opaque; axes of one of `domains` are never mapped to each other."""
    graph = exact.copy()
    for domain in domains:
        graph.set_unmappable(domain)
    while True:
        forms = AxisForms(graph=graph)
        first: dict[tuple[Monomial, Form], IterDomain] = {}
        todo: list[tuple[IterDomain, IterDomain]] = []
        groups = graph.groups()
        for group in groups:
            for key in _keys(graph, forms, group):
                todo.append((first.setdefault(key, group), group))
        for a, b in todo:
            graph.map(a, b, Reason(EQUAL_FORMS))
        if len(graph.groups()) == len(groups):
            return graph


def _keys(graph: ValGraph, forms: AxisForms, group: IterDomain) -> Iterator[tuple[Monomial, Form]]:
    """The form of a group by each transform that makes it. Extent 1 says nothing: all are 0."""
    extent, form = forms.key(group)
    if extent == Monomial(1):
        return
    yield extent, form
    for transform in graph.definitions(group):
        for position, output in graph.outputs(transform).items():
            other = forms.via(transform, position)
            if graph.are_mapped(output, group) and other is not None:
                yield extent, other


def _axes(tensor: TensorView) -> Iterator[IterDomain]:
    domain = tensor.domain
    yield from (*domain.root, *domain.logical, *domain.allocation, *domain.loop)


def operand_maps(expr: Expr) -> Iterator[tuple[TensorView, tuple[int | None, ...]]]:
    """Each tensor input with the map of its axes to the consumer's root axes."""
    for value, axis_map in zip(expr.inputs, expr.axis_maps, strict=True):
        if isinstance(value, TensorView):
            yield value, axis_map


Seed = tuple[tuple[IterDomain, IterDomain], Reason]


def _edge_pairs(fusion: Fusion) -> Iterator[Seed]:
    """Producer logical ~ consumer root. The dim of a cat is a window of the consumer's axis and
    therefore no pair."""
    for consumer in fusion.tensors:
        expr = consumer.definition
        if expr is None:
            continue
        cat_dim = expr.dim if expr.op.family is Family.CAT else None
        reason = Reason(f"producer and consumer axis of {expr.op.name}")
        for producer, axis_map in operand_maps(expr):
            for axis, position in zip(producer.logical, axis_map, strict=True):
                if position is not None and position != cat_dim:
                    yield (axis, consumer.domain.root[position]), reason


def _sibling_pairs(fusion: Fusion) -> Iterator[Seed]:
    first: dict[Expr, TensorView] = {}
    for tensor in fusion.tensors:
        if tensor.definition is not None:
            sibling = first.setdefault(tensor.definition, tensor)
            if sibling is not tensor:
                reason = Reason(f"results of one {tensor.definition.op.name}")
                for pair in zip(sibling.domain.root, tensor.domain.root, strict=True):
                    yield pair, reason


def _stretched_pairs(fusion: Fusion) -> Iterator[Seed]:
    """An axis of extent 1 ~ the consumer axis along which it is repeated."""
    for consumer in fusion.tensors:
        expr = consumer.definition
        if expr is None or expr.op.domain not in ("", "expand", "broadcast_in_dim"):
            continue
        root = consumer.domain.root
        for producer, axis_map in operand_maps(expr):
            dims = expr.attr("broadcast_dims") if expr.op.domain == "broadcast_in_dim" else None
            lead = len(root) - producer.ndim
            for k, (axis, position) in enumerate(zip(producer.logical, axis_map, strict=True)):
                target = dims[k] if isinstance(dims, tuple) else lead + k
                if position is None and isinstance(target, int):
                    yield (axis, root[target]), Reason(f"stretched by {expr.op.name}")


def _forward_merge(graph: ValGraph, merged: IterDomain, transform: Merge) -> None:
    """merge(i8, b1) runs over the elements of i8."""
    for kept, other in (
        (transform.outer, transform.inner),
        (transform.inner, transform.outer),
    ):
        if other.is_broadcast and not kept.is_broadcast:
            graph.map(kept, merged, Reason("merged with a broadcast axis"))
