"""Sum a plane at once, of which sums down the columns are weighted and summed alone.

    T1: f32[r64, i8, r64, i577] = sum(T0: f32[i64, i8, i64, i577], dims=[0, 2])
    T4: f32[i8, r577] = sum(mul(T1, T2), dims=[1])
        =>   T3 = mul(T0, T2);  T4: f32[r64, i8, r64, r577] = sum(T3, dims=[0, 2, 3])

The gradient of a slope that each head has of its own is such a sum, of those of scores times the
places of keys. Rows that are reduced anyway then come to a number more each (`share_sums.py`): sums
down their columns would read the plane again, or blocks would have to walk it. What was rounded
between the two sums is not.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from math import prod

from thunder_fuser.analysis.digits import atom
from thunder_fuser.analysis.index_map import edges
from thunder_fuser.analysis.layout import numbered, offset_of
from thunder_fuser.analysis.reductions import is_along, is_summed, plane_of
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.ops import Family
from thunder_fuser.presegment.share_sums import factors_of
from thunder_fuser.presegment.stages import expanded, reshaped, widened


@dataclass(frozen=True)
class _Sums:
    """Sums down the columns of a plane, what they are multiplied by before they are summed, and
    whether that is negated."""

    down: TensorView
    weights: tuple[TensorView, ...]
    is_negative: bool


def merge_sums(fusion: Fusion) -> Fusion:
    """`fusion` with such sums, of planes whose rows are reduced."""
    along = [*filter(is_along, fusion.tensors)]
    planes = {plane_of(tv) for tv in along}

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        if not tv.is_of("sum") or not tv.dtype.is_floating:
            return None
        (old,), (terms,) = tv.expr.tensors, inputs
        assert isinstance(terms, TensorView)
        before, sums = _sums_in(old, planes), _sums_in(terms, planes)
        if before is None or sums is None or before.down in topological(fusion.roots, {tv}):
            return None
        return _merged(tv, sums)

    return rewrite(fusion, rule) if planes else fusion


def _sums_in(terms: TensorView, planes: Container[tuple[int, int] | None]) -> _Sums | None:
    """Of one of `planes`, where the `terms` of another sum are such."""
    found, is_negative = factors_of(terms)
    for k, factor in enumerate(found):
        down, weights = _source(factor), (*found[:k], *found[k + 1 :])
        is_down = down.is_of("sum") and is_summed(down) and plane_of(down) in planes
        if is_down and down not in topological(weights):  # as of a square, which needs it anyway
            return _Sums(down, weights, is_negative)
    return None


def _source(tv: TensorView) -> TensorView:
    """What has the elements of `tv` in the same order, before casts and views."""
    while tv.definition is not None:
        made = tv.definition
        is_cast = made.op.name == "cast" and tv.dtype.is_floating
        if not is_cast and not (made.op.family is Family.VIEW and _is_reshaped(tv)):
            return tv
        (tv,) = made.tensors
    return tv


def _is_reshaped(tv: TensorView) -> bool:
    """True for a view of all elements in their order."""
    (source,) = tv.expr.tensors
    (edge,) = edges(tv, tuple(map(atom, tv.logical)))
    is_whole = prod(source.shape) == prod(tv.shape) and not edge.windows
    return is_whole and offset_of(numbered(source), edge.index) == offset_of(
        numbered(tv), tuple(map(atom, tv.logical))
    )


def _merged(tv: TensorView, sums: _Sums) -> TensorView | None:
    """`tv` as a sum of the plane; None where it does not sum along rows, or others of its dims."""
    down = sums.down
    (source,) = down.expr.tensors
    summed = [k for k, a in enumerate(down.domain.logical) if a.is_reduction]
    kept = [k for k, size in enumerate(source.shape) if k not in summed and size != 1]
    own = [a for a in tv.domain.logical if a.size != 1]
    sizes = [source.shape[k] for k in kept]
    if [a.size for a in own] != sizes or not own[-1].is_reduction:
        return None
    product = widened(tv, source)
    held = [size if k in kept else 1 for k, size in enumerate(source.shape)]
    for weight in sums.weights:
        product = call("mul", product, expanded(reshaped(weight, held), source.shape))
    also = (k for k, a in zip(kept, own, strict=True) if a.is_reduction)
    total = call("sum", product, dims=tuple(sorted({*summed, *also})))
    return reshaped(call("neg", total) if sums.is_negative else total, tv.shape)
