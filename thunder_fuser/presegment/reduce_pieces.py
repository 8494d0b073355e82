"""Reduce rows to which a few elements were joined without them, and combine what these come to.

    T2 = cat(T0, T1, dim=1); T3 = exp(T2); T4 = sum(T3, dims=[1]); T5 = slice(T3, [0, 0], [8, 256])
        =>   T5 = exp(T0); T4 = add(sum(T5, dims=[1]), sum(exp(T1), dims=[1]))

    T0: [8, 256], T1: [8, 1]

So are the scores of attention with a sink, which takes its part of the softmax and is dropped: what
is read and stored has rows of 256, and what is reduced had rows of 257. Pads are such joins too, as
of the gradient of what was dropped. Not where rows are stored with what was joined.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from thunder_fuser.analysis.reductions import (
    MAX_REPEATED,
    MAX_SHORT_REDUCTION,
    is_long,
    is_reduction,
    terms_of,
)
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import again, apply, call
from thunder_fuser.ir.domains import cat_starts
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.scalar import Scalar
from thunder_fuser.ir.tensor import Expr, TensorView, Value
from thunder_fuser.ops import Family
from thunder_fuser.presegment.stages import constants, part

_COMBINED = {"max": "maximum", "min": "minimum", "sum": "add", "prod": "mul"}

Stretch = tuple[int, int]  # of a dim, from where to where


def reduce_pieces(fusion: Fusion) -> Fusion:
    """`fusion` with such rows reduced without what was joined."""
    found = _found(fusion)
    planes = {terms_of(tv).shape: (_dim(tv), piece) for tv, piece in found.items()}
    parts = {dim: _Parts(dim) for dim, _ in planes.values()}

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        match inputs:
            case (TensorView() as source,) if tv in found:
                return _reduced(tv, source, found[tv], parts[_dim(tv)])
            case (TensorView() as source,) if tv.is_of("slice"):
                dim, piece = planes.get(source.shape, (-1, (0, 0)))
                cut = _cut_along(tv, dim) if dim >= 0 else None
                is_part = cut is not None and (cut == piece or not _meet(cut, piece))
                return parts[dim].of(source, cut) if is_part and cut is not None else None
        return None

    return rewrite(fusion, rule) if found else fusion


def _reduced(tv: TensorView, source: TensorView, piece: Stretch, parts: _Parts) -> TensorView:
    """The reduction `tv` of the `piece`, and what lies before and behind it."""
    (start, end), extent, made = piece, source.shape[parts.dim], None
    for stretch in (piece, (0, start), (end, extent)):
        if stretch[0] < stretch[1]:
            terms = parts.of(source, stretch)
            own = again(tv.expr, [terms])
            made = own if made is None else call(_COMBINED[tv.expr.op.name], made, own)
    assert made is not None
    return made


def _found(fusion: Fusion) -> dict[TensorView, Stretch]:
    """The reductions of such rows, and their longest piece: all of a plane, of which nothing is
    stored, have the same one."""
    planes = defaultdict[tuple[int, ...], list[TensorView]](list)
    for tv in filter(is_long, fusion.tensors):
        planes[terms_of(tv).shape].append(tv)
    stored = {prod(tv.shape) for tv in fusion.roots}
    found = dict[TensorView, Stretch]()
    for shape, reductions in planes.items():
        if prod(shape) not in stored and all(map(_is_in_parts, reductions)):
            dims, pieces = set(map(_dim, reductions)), set(map(_longest, reductions))
            if len(dims) == len(pieces) == 1 and (piece := pieces.pop()) is not None:
                found |= dict.fromkeys(reductions, piece)
    return found


def _is_in_parts(tv: TensorView) -> bool:
    """True for a reduction of one dim that its parts lead to without a rounding."""
    name = tv.expr.op.name
    if not is_reduction(tv) or name not in _COMBINED:
        return False
    is_exact = name in ("max", "min") or not tv.dtype.is_reduced_precision
    return len(tv.expr.dims()) == 1 and is_exact


def _longest(tv: TensorView) -> Stretch | None:
    """The stretch of the reduced dim that is one piece of all that was joined; None where nothing
    was, or more than a few elements."""
    dim, extent = _dim(tv), terms_of(tv).shape[_dim(tv)]
    pieces = list(_pieces(terms_of(tv), dim))
    start, end = max((a for a, _ in pieces), default=0), min((b for _, b in pieces), default=0)
    is_long_enough = end - start > MAX_SHORT_REDUCTION
    return (start, end) if is_long_enough and 0 < extent - (end - start) <= MAX_REPEATED else None


def _pieces(tv: TensorView, dim: int) -> Iterator[Stretch]:
    """The longest piece of each cat and pad along `dim` of which `tv` is computed element by
    element."""
    todo, seen = [tv], {tv}
    while todo:
        match (of := todo.pop()).definition:
            case Expr(op=row) as made if row.family is Family.POINTWISE:
                more = {t for t in made.tensors if t.shape == of.shape} - seen
                todo, seen = [*todo, *more], seen | more
            case Expr(op=row) as made if row.name == "cat" and made.attr("dim") == dim:
                joined = ((a, b) for _, a, b in _joined(made, dim))
                yield max(joined, key=lambda piece: piece[1] - piece[0])
            case Expr(op=row) as made if row.name == "pad":
                yield _padded(of, made, dim)


@dataclass
class _Parts:
    """Stretches of tensors along `dim`, computed from stretches of what these are made of."""

    dim: int
    known: dict[tuple[TensorView, Stretch], TensorView] = field(default_factory=dict)

    def of(self, tv: TensorView, stretch: Stretch) -> TensorView:
        """That stretch of `tv`."""
        if stretch == (0, tv.shape[self.dim]):
            return tv
        if (tv, stretch) not in self.known:
            self.known[tv, stretch] = self._computed(tv, stretch) or part(tv, self.dim, *stretch)
        return self.known[tv, stretch]

    def _computed(self, tv: TensorView, stretch: Stretch) -> TensorView | None:
        """None where nothing is gained by it."""
        match tv.definition:
            case Expr(op=row) as made if row.family is Family.POINTWISE:
                own = [self._operand(v, tv, stretch) for v in made.inputs]
                part = apply(row, own, dict(made.attrs))
                return part if isinstance(part, TensorView) else None
            case Expr(op=row) as made if row.name == "cat" and made.attr("dim") == self.dim:
                for source, start, end in _joined(made, self.dim):
                    if start <= stretch[0] and stretch[1] <= end:
                        return self.of(source, (stretch[0] - start, stretch[1] - start))
            case Expr(op=row) as made if row.name in ("broadcast_in_dim", "expand"):
                return self._spread(tv, made, stretch)
        return None

    def _operand(self, v: Value, tv: TensorView, stretch: Stretch) -> Value:
        return self.of(v, stretch) if isinstance(v, TensorView) and v.shape == tv.shape else v

    def _spread(self, tv: TensorView, made: Expr, stretch: Stretch) -> TensorView | None:
        """Of what is the same all along the dim."""
        (source,) = made.tensors
        lead = tuple(range(tv.ndim - source.ndim, tv.ndim))
        dims = lead if made.op.name == "expand" else made.dims("broadcast_dims")
        if self.dim in dims and source.shape[dims.index(self.dim)] != 1:
            return None
        shape = [stretch[1] - stretch[0] if d == self.dim else n for d, n in enumerate(tv.shape)]
        return call("broadcast_in_dim", source, shape=constants(shape), broadcast_dims=dims)


def _joined(made: Expr, dim: int) -> Iterator[tuple[TensorView, int, int]]:
    """What a cat joins, and from where to where each lies."""
    for source, at in zip(made.tensors, cat_starts(made.tensors, dim), strict=True):
        start = sc.static_int(at)
        assert start is not None
        yield source, start, start + source.shape[dim]


def _padded(tv: TensorView, made: Expr, dim: int) -> Stretch:
    """Where along `dim` what was padded lies."""
    widths = _numbers(made, "pad_widths")[2 * (tv.ndim - 1 - dim) :]
    left, right = widths[:2] or (0, 0)
    return max(left, 0), tv.shape[dim] - max(right, 0)


def _cut_along(tv: TensorView, dim: int) -> Stretch | None:
    """What a slice takes, if it is a stretch of `dim` and all of the others."""
    (source,) = tv.expr.tensors
    names = ("start_indices", "end_indices", "strides")
    starts, ends, steps = (_numbers(tv.expr, name) for name in names)
    whole = (d for d in range(tv.ndim) if d != dim)
    is_stretch = all(tv.shape[d] == source.shape[d] for d in whole) and steps[dim] == 1
    return (starts[dim], ends[dim]) if is_stretch else None


def _numbers(made: Expr, name: str) -> tuple[int, ...]:
    """An attribute, of static numbers."""
    values = made.attr(name)
    assert isinstance(values, tuple)
    return tuple(n for v in values if isinstance(v, Scalar) and (n := sc.static_int(v)) is not None)


def _meet(a: Stretch, b: Stretch) -> bool:
    return max(a[0], b[0]) < min(a[1], b[1])


def _dim(tv: TensorView) -> int:
    (dim,) = tv.expr.dims()
    return dim
