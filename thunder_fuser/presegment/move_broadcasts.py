"""Make broadcasts, squeezes, permutes and expands of an input part of the input's own domain.

    fusion(T0: f32[i8], T1: f32[i8, i4])              fusion(T0: f32[i8, b1] bound as [i8], T1: ..)
      T2: f32[i8] = neg(T0)                             T2: f32[i8, b1] = neg(T0)
      T3: f32[i8, b1] = broadcast(T2, ...)       =>     T3: f32[i8, i4] = mul(T2, T1)
      T4: f32[i8, i4] = mul(T3, T1)

Root and allocation stay what the caller binds; an axis of the logical domain that is not in the
root was added, so the flags of the broadcast can be read off the domain (`added_axes`). The view
moves up through pointwise producers that only it reads, and stops at anything else: above a
reduction it would put an axis beside the reduced one. An input that is written in place, or
returned, stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from thunder_fuser.analysis.layout import Layout
from thunder_fuser.ir.build import apply
from thunder_fuser.ir.domain import IterDomain, IterType
from thunder_fuser.ir.fusion import Fusion, Write
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.ops import Family


def move_broadcasts(fusion: Fusion) -> Fusion:
    """`fusion` with every view that `reject` has nothing against folded into inputs; the same
    object where there is none."""
    while True:
        view = next((tv for tv in views(fusion) if reject(fusion, tv) is None), None)
        if view is None:
            return fusion
        fusion = _fold(fusion, view)


def views(fusion: Fusion) -> Iterator[TensorView]:
    """The tensors made by an op that only relates axes: broadcast, expand, squeeze, permute."""
    for tv in fusion.tensors:
        expr, domain = tv.definition, tv.domain
        if (
            expr is not None
            and expr.op.family is Family.VIEW
            and not domain.transforms
            and domain.allocation == domain.logical
        ):
            yield tv


def reject(fusion: Fusion, view: TensorView) -> str | None:
    """Why `view` stays an op, None where it can move into the inputs it reads."""
    if view in fusion.roots:
        return "it is returned: a view of its producer, decided by alias analysis"
    targets = {w.target for w in fusion.writes}
    for tv in _above(view):
        readers = fusion.uses[tv]
        if tv in fusion.roots:
            return f"the {_what(tv)} it reads is returned with its own shape"
        if len(readers) > 1:
            return f"the {_what(tv)} it reads has {len(readers)} readers"
        if tv in targets:
            return "the input is written in place: a reader needs its old value in its own layout"
        expr = tv.definition
        if expr is None:
            continue
        if expr.op.family is Family.REDUCTION:
            return f"it follows {expr.op.name}: reduce-then-broadcast keeps its pattern"
        if expr.op.family is not Family.POINTWISE:
            return f"it follows {expr.op.name}, which is not pointwise"
        if any(p.ndim != tv.ndim or p.extents != tv.extents for p in expr.tensors):
            return f"{expr.op.name} above it broadcasts its operands"
    return None


def added_axes(tv: TensorView) -> tuple[bool, ...]:
    """Per logical axis of an input: was it added to what the caller binds?"""
    return tuple(a not in tv.domain.root for a in tv.domain.logical)


def moved_layout(tv: TensorView, bound: Layout) -> Layout:
    """The layout of an input as its logical axes see it, from that of the tensor the caller bound:
    the same address, stride 0 along added axes."""
    strides = dict(zip(tv.domain.root, bound.strides, strict=True))
    return replace(
        bound, shape=tv.shape, strides=tuple(strides.get(a, 0) for a in tv.domain.logical)
    )


def _what(tv: TensorView) -> str:
    return "input" if tv.definition is None else f"{tv.definition.op.name}"


def _above(view: TensorView) -> Iterator[TensorView]:
    """The tensors between `view` and the inputs, as far up as pointwise ops reach."""
    assert view.definition is not None
    stack = list(view.definition.tensors)
    seen: set[TensorView] = set()
    while stack:
        tv = stack.pop()
        if tv in seen:
            continue
        seen.add(tv)
        yield tv
        if tv.definition is not None and tv.definition.op.family is Family.POINTWISE:
            stack += tv.definition.tensors


def _fold(fusion: Fusion, view: TensorView) -> Fusion:
    """Replay `fusion` with the inputs under `view` seen through it and `view` gone."""
    assert view.definition is not None
    moved = set(_above(view))
    new: dict[TensorView, TensorView] = {}

    def value(v: Value) -> Value:
        return new[v] if isinstance(v, TensorView) else v

    for tv in fusion.tensors:
        expr = tv.definition
        if tv is view:
            new[tv] = new[view.definition.tensors[0]]
        elif expr is None:
            new[tv] = _seen_through(tv, view) if tv in moved else tv
        elif all(new[p] is p for p in expr.tensors):
            new[tv] = tv
        else:
            made = apply(expr.op, [value(v) for v in expr.inputs], dict(expr.attrs))
            assert isinstance(made, TensorView)
            new[tv] = made
    writes = tuple(Write(new[w.value], new[w.target]) for w in fusion.writes)
    outputs = tuple(new[tv] for tv in fusion.outputs)
    return Fusion(tuple(value(v) for v in fusion.inputs), outputs, writes)


def _seen_through(tv: TensorView, view: TensorView) -> TensorView:
    """The input with the logical axes that `view` gives it."""
    expr = view.definition
    assert expr is not None
    maps = zip(expr.inputs, expr.axis_maps, strict=True)
    (axis_map,) = (m for v, m in maps if isinstance(v, TensorView))
    logical: list[IterDomain] = [
        IterDomain(a.extent, IterType.BROADCAST) for a in view.domain.logical
    ]
    for axis, position in zip(tv.domain.logical, axis_map, strict=True):
        if position is not None:
            logical[position] = axis
    domain = replace(tv.domain, logical=tuple(logical), loop=tuple(logical))
    return replace(tv, domain=domain)
