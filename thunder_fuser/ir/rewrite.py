"""One bottom-up rewrite of a fusion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from thunder_fuser.ir.build import again
from thunder_fuser.ir.fusion import Fusion, Write
from thunder_fuser.ir.tensor import TensorView, Value

Rule = Callable[[TensorView, tuple[Value, ...]], TensorView | None]


def rewrite(fusion: Fusion, rule: Rule) -> Fusion:
    """`fusion` with every tensor replaced by what `rule` makes of it and its rewritten inputs; None
    leaves the op. Inputs stay the same tensors; where nothing changed so does the fusion."""
    new: dict[TensorView, TensorView] = {}
    for tv in fusion.tensors:
        expr = tv.definition
        if expr is None:
            new[tv] = tv
            continue
        inputs = tuple(new[v] if isinstance(v, TensorView) else v for v in expr.inputs)
        made = rule(tv, inputs)
        if made is None:
            same = all(a is b for a, b in zip(inputs, expr.inputs, strict=True))
            made = tv if same else lying_like(tv, again(expr, inputs))
        new[tv] = made
    if all(old is made for old, made in new.items()):
        return fusion
    writes = tuple(Write(new[w.value], w.target) for w in fusion.writes)
    return Fusion(fusion.inputs, tuple(new[tv] for tv in fusion.outputs), writes)


def lying(tv: TensorView, order: Sequence[int]) -> TensorView:
    """`tv` with its dims in that order in memory, the outermost first, without gaps."""
    axes = tuple(tv.logical[k] for k in order)
    contiguity = tuple(None if a.is_broadcast else True for a in axes)
    return replace(tv, domain=replace(tv.domain, allocation=axes, contiguity=contiguity))


def lies_in(tv: TensorView) -> tuple[int, ...]:
    """The dims of `tv` in the order in which they lie in memory, the outermost first."""
    return tuple(tv.logical.index(a) for a in tv.domain.allocation)


def lying_like(old: TensorView, made: TensorView) -> TensorView:
    """`made`, which takes the place of `old`, in its order in memory."""
    order = lies_in(old)
    return made if order == tuple(range(made.ndim)) else lying(made, order)
