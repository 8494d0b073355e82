"""Stretches of what is computed, computed from stretches of what it is made of.

T1 = exp(T0); T2 = sum(T1, dims=[1]); T3 = slice(T2, [0], [4])
    =>   T1 = slice(T0, [0, 0], [4, 256]); T2 = exp(T1); T3 = sum(T2, dims=[1])
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from thunder_fuser.analysis.reductions import is_reduction
from thunder_fuser.analysis.views import is_stop
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import again, call, produce
from thunder_fuser.ir.domains import cat_starts
from thunder_fuser.ir.scalar import Scalar
from thunder_fuser.ir.tensor import Expr, TensorView, Value
from thunder_fuser.ops import Family
from thunder_fuser.presegment.stages import constants


@dataclass(frozen=True)
class Stretch:
    """The places of a dim from the start on, before the end, or each so many of them."""

    dim: int
    start: int
    end: int
    step: int = 1

    @property
    def places(self) -> range:
        return range(self.start, self.end, self.step)

    @property
    def size(self) -> int:
        return len(self.places)


@dataclass
class Stretches:
    """What was made of those that were asked for, or is `known` to be one."""

    known: dict[tuple[TensorView, Stretch], TensorView] = field(default_factory=dict)

    def of(self, tv: TensorView, stretch: Stretch) -> TensorView:
        """That stretch of `tv`."""
        if stretch.size == tv.shape[stretch.dim]:
            return tv
        if (tv, stretch) not in self.known:
            self.known[tv, stretch] = self._computed(tv, stretch) or _slice(tv, stretch)
        return self.known[tv, stretch]

    def _computed(self, tv: TensorView, stretch: Stretch) -> TensorView | None:
        """None where nothing is gained by it."""
        match tv.definition:
            case Expr(op=row) as made if row.family is Family.POINTWISE and not is_stop(tv):
                own = [self._operand(v, tv, stretch) for v in made.inputs]
                return produce(row, own, dict(made.attrs))
            case Expr(op=row, inputs=(TensorView() as source,)) as made if is_reduction(tv):
                kept = [dim for dim in range(source.ndim) if dim not in made.dims()]
                return again(made, [self.of(source, replace(stretch, dim=kept[stretch.dim]))])
            case Expr(op=row) as made if row.name == "cat" and made.dim == stretch.dim:
                for source, start, end in joined(made, stretch.dim):
                    if start <= stretch.start and stretch.end <= end:
                        ends = {"start": stretch.start - start, "end": stretch.end - start}
                        return self.of(source, replace(stretch, **ends))
            case Expr(op=row) as made if row.name in ("broadcast_in_dim", "broadcast", "expand"):
                return self._spread(tv, made, stretch)
        return None

    def _operand(self, v: Value, tv: TensorView, stretch: Stretch) -> Value:
        """What is needed of an operand, which may be repeated along the dim."""
        if not isinstance(v, TensorView):
            return v
        dim = stretch.dim - (tv.ndim - v.ndim)
        is_along = dim >= 0 and v.shape[dim] == tv.shape[stretch.dim]
        return self.of(v, replace(stretch, dim=dim)) if is_along else v

    def _spread(self, tv: TensorView, made: Expr, stretch: Stretch) -> TensorView:
        """Of what is repeated, along the dim or others."""
        (source,) = made.tensors
        dims = _dims_of_source(tv, made)
        if stretch.dim in dims and source.shape[dims.index(stretch.dim)] != 1:
            source = self.of(source, replace(stretch, dim=dims.index(stretch.dim)))
        shape = [stretch.size if d == stretch.dim else n for d, n in enumerate(tv.shape)]
        return call("broadcast_in_dim", source, shape=constants(shape), broadcast_dims=dims)


def _dims_of_source(tv: TensorView, made: Expr) -> tuple[int, ...]:
    """The dims of what repeats a tensor that are dims of that."""
    if made.op.name == "broadcast_in_dim":
        return made.dims("broadcast_dims")
    if made.op.name == "broadcast":
        is_new = made.attr("is_broadcast_dim")
        assert isinstance(is_new, tuple)
        return tuple(dim for dim, new in enumerate(is_new) if not new)
    return tuple(range(tv.ndim - made.tensors[0].ndim, tv.ndim))


def _slice(tv: TensorView, stretch: Stretch) -> TensorView:
    starts, ends, strides = [0] * tv.ndim, list(tv.shape), [1] * tv.ndim
    starts[stretch.dim], ends[stretch.dim] = stretch.start, stretch.end
    strides[stretch.dim] = stretch.step
    sizes = {"start_indices": constants(starts), "end_indices": constants(ends)}
    return call("slice", tv, **sizes, strides=constants(strides))


def cut_by(tv: TensorView) -> Stretch | None:
    """What a slice takes, if that is all but along one dim."""
    (source,) = tv.expr.tensors
    names = ("start_indices", "end_indices", "strides")
    starts, ends, steps = (numbers(tv.expr, name) for name in names)
    cut = [dim for dim in range(tv.ndim) if tv.shape[dim] != source.shape[dim]]
    return Stretch(d := cut[0], starts[d], ends[d], steps[d]) if len(cut) == 1 else None


def joined(made: Expr, dim: int) -> Iterator[tuple[TensorView, int, int]]:
    """What a cat joins, and from where to where each lies."""
    for source, at in zip(made.tensors, cat_starts(made.tensors, dim), strict=True):
        start = sc.static_int(at)
        assert start is not None
        yield source, start, start + source.shape[dim]


def numbers(made: Expr, name: str) -> tuple[int, ...]:
    """An attribute, of static numbers."""
    values = made.attr(name)
    assert isinstance(values, tuple)
    return tuple(n for v in values if isinstance(v, Scalar) and (n := sc.static_int(v)) is not None)
