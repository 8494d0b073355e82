"""Index maps: which element of a producer does an element of a consumer come from?

    T1[i24] = reshape(T0[i4, i6])         index of T1: f        =>    index of T0: (f / 6, f % 6)

The map of an edge walks the consumer's logical axes backward through the transforms that made them
to its root axes, and from there by position to the producer's logical axes. Every step is a digit
form operation; nothing else in the package divides an index. The gathered axis of an embedding's
weight is mapped to no axis: its index is the value that the other operand holds; so is that of what
a group sum adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from thunder_fuser.analysis.digits import (
    ZERO,
    Form,
    Loaded,
    combine,
    divmod_form,
    flip,
    gathered,
    shift,
)
from thunder_fuser.analysis.transforms import inner_extent
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.domain import Flip, IterDomain, Merge, Resize, Split, TensorDomain
from thunder_fuser.ir.domains import cat_starts
from thunder_fuser.ir.scalar import Scalar
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Family


@dataclass(frozen=True)
class Window:
    """The producer is defined where 0 <= form < extent."""

    form: Form
    extent: int

    def is_within(self, other: Window) -> bool:
        """True if what holds in this window holds in another one of the same form."""
        return self.form == other.form and self.extent <= other.extent


@dataclass(frozen=True)
class Edge:
    """The index of one producer per logical axis, and the windows outside which it has none."""

    producer: TensorView
    index: tuple[Form, ...]
    windows: tuple[Window, ...]


def edges(consumer: TensorView, index: tuple[Form, ...]) -> tuple[Edge, ...]:
    """The edge to each tensor input of `consumer` when its own logical index is `index`.

    A reduction's reduced axes are not part of `index`; see `term_at`, and `access.reduced_edges`
    for short ones.
    """
    assert consumer.definition is not None
    values = dict(zip(consumer.logical, index, strict=True))
    return edges_from(consumer, values)


def edges_from(consumer: TensorView, logical: dict[IterDomain, Form]) -> tuple[Edge, ...]:
    """As `edges`, from the index of every logical axis, reduced ones included."""
    expr = consumer.definition
    assert expr is not None
    root, windows = to_root(consumer.domain, logical)
    starts = _window_starts(consumer)
    made = []
    maps = [
        m for m, v in zip(expr.axis_maps, expr.inputs, strict=True) if isinstance(v, TensorView)
    ]
    for position, (producer, axis_map) in enumerate(zip(expr.tensors, maps, strict=True)):
        index = [ZERO if k is None else root[consumer.domain.root[k]] for k in axis_map]
        edge_windows = windows
        if starts is not None:
            dim, begin = starts[0], starts[1][position]
            index[dim] = shift(index[dim], -begin)
            edge_windows = (*windows, Window(index[dim], producer.shape[dim]))
        made.append(Edge(producer, tuple(index), edge_windows))
    if expr.op.family not in (Family.GATHER, Family.GROUPED):
        return tuple(made)
    x, places, *others = made
    dim = gathered_dim(consumer)
    loaded = Loaded(places.producer, places.index, x.producer.shape[dim])
    found = (*x.index[:dim], gathered(loaded), *x.index[dim + 1 :])
    return replace(x, index=found), places, *others


def term_at(
    reduction: TensorView, index: tuple[Form, ...], reduced: Sequence[Form]
) -> tuple[TensorView, tuple[Form, ...]]:
    """The element that `reduction` combines into its element `index` where its reduced axes have
    the indices `reduced`: the producer, and where in it."""
    axes = [a for a in reduction.domain.logical if a.is_reduction]
    values = dict(zip(reduction.logical, index, strict=True))
    edge, *_ = edges_from(reduction, values | dict(zip(axes, reduced, strict=True)))
    return edge.producer, edge.index


def gathered_dim(consumer: TensorView) -> int:
    """The dim of the first operand whose index the second one holds."""
    return consumer.expr.dim


def _window_starts(consumer: TensorView) -> tuple[int, tuple[int, ...]] | None:
    """For a cat, its dim and where each input's window begins."""
    expr = consumer.definition
    assert expr is not None
    if expr.op.family is not Family.CAT:
        return None
    return expr.dim, tuple(_int(s) for s in cat_starts(expr.tensors, expr.dim))


def to_root(
    domain: TensorDomain, logical: dict[IterDomain, Form]
) -> tuple[dict[IterDomain, Form], tuple[Window, ...]]:
    """The index of every root axis from those of the logical axes, and the windows on the way.

    An axis that no logical axis was made of has index 0: the dropped inner axis of a strided slice,
    a unit axis that a reshape leaves out.
    """
    if not domain.transforms:  # as of most tensors: the same axes
        return {a: logical.get(a, ZERO) for a in domain.root}, ()
    known = {_key(a): form for a, form in logical.items()}
    windows: list[Window] = []
    for transform in domain.transforms:
        match transform:
            case Split(input=source):
                outer, inner = known.get((transform, 0), ZERO), known.get((transform, 1), ZERO)
                known[_key(source)] = combine(outer, inner, _int(inner_extent(transform)))
            case Merge(outer=outer_axis, inner=inner_axis):
                merged = known[(transform, 0)]
                if outer_axis.size == 1:  # so it is below the other's, whatever its bounds are
                    high, low = ZERO, merged
                else:
                    high, low = divmod_form(merged, inner_axis.size)
                known[_key(outer_axis)], known[_key(inner_axis)] = high, low
            case Resize(input=source, left=left):
                form = shift(known[(transform, 0)], -_int(left))
                known[_key(source)] = form
                low_bound, high_bound = form.bounds
                if low_bound < 0 or high_bound >= source.size:
                    windows.append(Window(form, source.size))
            case Flip(input=source):
                form = known[(transform, 0)]
                known[_key(source)] = form if source.size == 1 else flip(form, source.size)
    return {a: known.get(_key(a), ZERO) for a in domain.root}, tuple(windows)


def _key(axis: IterDomain) -> object:
    """An axis is the n-th result of its transform; one without a transform is itself."""
    return axis if axis.definition is None else (axis.definition, axis.position)


def _int(scalar: Scalar) -> int:
    value = sc.static_int(scalar)
    assert value is not None, f"{scalar} is symbolic"
    return value
