"""Gradients that Thunder 0.2.6 does not have: it fails at the first tensor that needs one, or gives
none.

They are registered beside Thunder's own, once, where there is none: whoever writes
`torch.minimum(ratio * a, clipped * a)` gets torch's gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import thunder.core.prims as prims
import thunder.torch as ltorch
from thunder.core.prims import PrimIDs
from thunder.core.proxies import TensorProxy
from thunder.core.transforms import (
    _grad_fn_map,
    augmented_forward_impls,
    backward_impls,
    get_grad,
    put_grad,
    register_grad,
    sum_to,
)


def _minimum(a: Any, b: Any) -> Any:
    """Half of it for each of two that are equal, as torch's and Thunder's maximum."""
    result = prims.minimum(a, b)
    g = get_grad(result)
    shared = ltorch.where(ltorch.eq(a, b), ltorch.mul(g, 0.5), g)
    put_grad(a, ltorch.where(ltorch.gt(a, b), 0.0, shared))
    put_grad(b, ltorch.where(ltorch.gt(b, a), 0.0, shared))
    return result


def _flip(a: Any, dims: Any) -> Any:
    result = prims.flip(a, dims)
    put_grad(a, ltorch.flip(get_grad(result), dims))
    return result


def _lerp(start: Any, end: Any, weight: Any) -> Any:
    """start + weight * (end - start)"""
    result = prims.lerp(start, end, weight)
    g = get_grad(result)
    put_grad(start, ltorch.mul(g, ltorch.sub(1.0, weight)))
    put_grad(end, ltorch.mul(g, weight))
    if isinstance(weight, TensorProxy):
        put_grad(weight, ltorch.mul(g, ltorch.sub(end, start)))
    return result


def _remainder(a: Any, b: Any) -> Any:
    """a - n * b, with the whole number n of which the remainder is left: a / b is rounded up to the
    next one where it is near below that."""
    result = prims.remainder(a, b)
    g = get_grad(result)
    if isinstance(a, TensorProxy):
        put_grad(a, g)
    if isinstance(b, TensorProxy):
        times = ltorch.round(ltorch.true_divide(ltorch.sub(a, result), b))
        put_grad(b, ltorch.neg(ltorch.mul(g, times)))
    return result


def _unfold(a: Any, dim: int, size: int, step: int) -> Any:
    """Windows overlap where they are longer than a step: a sum by where each element is from."""
    result = prims.unfold(a, dim, size, step)
    along = dim % max(a.ndim, 1)
    first = ltorch.unsqueeze(
        ltorch.mul(ltorch.arange(result.shape[along], device=a.device), step), 1
    )
    places = ltorch.reshape(ltorch.add(first, ltorch.arange(size, device=a.device)), [-1])
    g = ltorch.movedim(get_grad(result), -1, along + 1)
    shape = [*a.shape[:along], places.shape[0], *a.shape[along + 1 :]]
    put_grad(a, prims.index_add(ltorch.zeros_like(a), places, ltorch.reshape(g, shape), along))
    return result


def _index_add(a: Any, index: Any, value: Any, dim: int) -> Any:
    result = prims.index_add(a, index, value, dim)
    g = get_grad(result)
    put_grad(a, g)
    put_grad(value, ltorch.index_select(g, dim, index))
    return result


def _index_put(a: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    result = ltorch.index_put(a, indices, values, accumulate)
    g = get_grad(result)
    put_grad(a, g if accumulate else ltorch.index_put(g, indices, ltorch.zeros_like(values)))
    put_grad(values, sum_to(ltorch.getitem(g, tuple(indices)), values.shape))
    return result


def _flat(prim: Any) -> Callable[..., Any]:
    """Of what is constant but for steps."""

    def rule(a: Any) -> Any:
        result = prim(a)
        put_grad(a, ltorch.zeros_like(a))
        return result

    return rule


GRADIENTS: dict[Any, Callable[..., Any]] = {
    PrimIDs.ARGMIN: prims.argmin,  # no gradient, as torch's
    PrimIDs.CEIL: _flat(prims.ceil),
    PrimIDs.FLIP: _flip,
    PrimIDs.FLOOR: _flat(prims.floor),
    PrimIDs.INDEX_ADD: _index_add,
    PrimIDs.ISFINITE: prims.isfinite,  # no gradient
    PrimIDs.LERP: _lerp,
    PrimIDs.MINIMUM: _minimum,
    PrimIDs.REMAINDER: _remainder,
    PrimIDs.ROUND: _flat(prims.round),
    PrimIDs.SIGNBIT: prims.signbit,  # no gradient
    PrimIDs.TRUNC: _flat(prims.trunc),
    PrimIDs.UNFOLD: _unfold,
}


# Thunder's own takes that of the values for an index's.
LOST: dict[str, Callable[..., Any]] = {"torch.index_put": _index_put}


def register(rules: Mapping[Any, Callable[..., Any]]) -> None:
    """Register the gradients of those symbols, by id, for which Thunder has none of its own."""
    register_over(
        {
            symbol: rule
            for symbol, rule in rules.items()
            if symbol not in augmented_forward_impls and symbol not in backward_impls
        }
    )


def register_over(rules: Mapping[Any, Callable[..., Any]]) -> None:
    """Register the gradients of those symbols, by id, also for which Thunder has one of parts or
    would run torch's op again, but where somebody has registered a rule."""
    for symbol, rule in rules.items():
        if symbol not in _grad_fn_map:
            register_grad(symbol, rule)
