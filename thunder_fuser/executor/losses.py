"""Losses that Thunder takes for torch's own: an elementwise function, then a mean or a sum.

    loss = mean(f(x, t))        dx = g / n * f'(x, t)

Thunder 0.2.6 registers each as an opaque torch op: the planes that it reads and the gradient that
it makes are handed over in memory, and its gradient runs it again under torch's autograd. Here a
row of `LOSSES` says what f and its derivatives are, as torch defines them, and both are part of the
kernels around them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import thunder.torch as ltorch
import torch.nn.functional as F
from thunder.core.proxies import TensorProxy
from thunder.core.transforms import get_grad, put_grad

from thunder_fuser.executor.nll_loss import REDUCTIONS
from thunder_fuser.executor.operands import is_ours, wide_type
from thunder_fuser.executor.replacement import Computed, Replacement

Term = Callable[..., Any]  # (x, t, *options), tensors in the wide type


@dataclass(frozen=True)
class Loss:
    """`value` of input and target and its derivatives by each, all of which take what torch's
    keywords `options` give as well."""

    value: Term
    by_input: Term
    by_target: Term
    options: tuple[str, ...] = ()
    reductions: tuple[str, ...] = REDUCTIONS


def _absolute(x: Any, t: Any) -> Any:
    return ltorch.abs(ltorch.sub(x, t))


def _sign(x: Any, t: Any) -> Any:
    return ltorch.sign(ltorch.sub(x, t))


def _smooth(x: Any, t: Any, beta: float) -> Any:
    distance = _absolute(x, t)
    square = ltorch.mul(ltorch.mul(distance, distance), 0.5 / beta)
    return ltorch.where(ltorch.lt(distance, beta), square, ltorch.sub(distance, 0.5 * beta))


def _smooth_slope(x: Any, t: Any, beta: float) -> Any:
    return ltorch.clamp(ltorch.mul(ltorch.sub(x, t), 1 / beta), -1.0, 1.0)


def _huber(x: Any, t: Any, delta: float) -> Any:
    return ltorch.mul(_smooth(x, t, delta), delta)


def _huber_slope(x: Any, t: Any, delta: float) -> Any:
    return ltorch.clamp(ltorch.sub(x, t), -delta, delta)


def _divergence(x: Any, t: Any, is_log: bool) -> Any:
    """exp(t) * (t - x), and t * (log(t) - x) for what is no logarithm: 0 of a target of 0."""
    if is_log:
        return ltorch.mul(ltorch.exp(t), ltorch.sub(t, x))
    is_zero = ltorch.eq(t, 0.0)
    entropy = ltorch.where(is_zero, 0.0, ltorch.mul(t, ltorch.log(t)))
    return ltorch.sub(entropy, ltorch.mul(t, x))


def _divergence_by_input(x: Any, t: Any, is_log: bool) -> Any:
    return ltorch.neg(ltorch.exp(t) if is_log else t)


def _divergence_by_target(x: Any, t: Any, is_log: bool) -> Any:
    if is_log:
        return ltorch.mul(ltorch.exp(t), ltorch.add(ltorch.sub(t, x), 1.0))
    return ltorch.sub(ltorch.add(ltorch.log(t), 1.0), x)


def _cross_entropy(x: Any, t: Any, weight: Any, pos_weight: Any) -> Any:
    """(1 - t) * x + p * log(1 + exp(-x)), in which p is 1 + (pos_weight - 1) * t."""
    terms = ltorch.mul(_share(t, pos_weight), _softplus_of_negated(x))
    return _weighted(ltorch.add(ltorch.mul(ltorch.sub(1.0, t), x), terms), weight)


def _cross_entropy_by_input(x: Any, t: Any, weight: Any, pos_weight: Any) -> Any:
    terms = ltorch.mul(_share(t, pos_weight), ltorch.sigmoid(ltorch.neg(x)))
    return _weighted(ltorch.sub(ltorch.sub(1.0, t), terms), weight)


def _cross_entropy_by_target(x: Any, t: Any, weight: Any, pos_weight: Any) -> Any:
    slope = ltorch.neg(x)
    if pos_weight is not None:
        grown = ltorch.mul(ltorch.sub(pos_weight, 1.0), _softplus_of_negated(x))
        slope = ltorch.add(slope, grown)
    return _weighted(slope, weight)


def _share(t: Any, pos_weight: Any) -> Any:
    if pos_weight is None:
        return 1.0
    return ltorch.add(ltorch.mul(ltorch.sub(pos_weight, 1.0), t), 1.0)


def _softplus_of_negated(x: Any) -> Any:
    """log(1 + exp(-x)), whose exponential is of no positive number."""
    small = ltorch.log1p(ltorch.exp(ltorch.neg(ltorch.abs(x))))
    return ltorch.add(ltorch.relu(ltorch.neg(x)), small)


def _weighted(terms: Any, weight: Any) -> Any:
    return terms if weight is None else ltorch.mul(terms, weight)


def _negated(slope: Term) -> Term:
    return lambda x, t, *options: ltorch.neg(slope(x, t, *options))


LOSSES: dict[Any, Loss] = {
    F.binary_cross_entropy_with_logits: Loss(
        _cross_entropy, _cross_entropy_by_input, _cross_entropy_by_target, ("weight", "pos_weight")
    ),
    F.huber_loss: Loss(_huber, _huber_slope, _negated(_huber_slope), ("delta",)),
    F.kl_div: Loss(
        _divergence,
        _divergence_by_input,
        _divergence_by_target,
        ("log_target",),
        (*REDUCTIONS, "batchmean"),
    ),
    F.l1_loss: Loss(_absolute, _sign, _negated(_sign)),
    F.smooth_l1_loss: Loss(_smooth, _smooth_slope, _negated(_smooth_slope), ("beta",)),
}


def _is_taken(option: Any, x: Any) -> bool:
    """True for a flag, for the width of a smooth part, and for weights that need no gradient. Of no
    width torch takes another formula, or raises."""
    if isinstance(option, TensorProxy):
        fits = option.ndim <= x.ndim and all(
            n in (1, extent) for n, extent in zip(option.shape[::-1], x.shape[::-1], strict=False)
        )
        return is_ours(option) and fits and not option.requires_grad and option.device == x.device
    return (
        option is None
        or isinstance(option, bool)
        or (isinstance(option, (int, float)) and option > 0)
    )


class _Rule:
    """What a loss is replaced by."""

    def __init__(self, function: Callable[..., Any], loss: Loss) -> None:
        self._signature = inspect.signature(function)
        self._loss = loss

    def can_replace(self, *args: Any, **kwargs: Any) -> bool:
        """True for two real floating tensors of one static shape and type, without torch's
        deprecated flags."""
        call = self._call(args, kwargs)
        x, t, reduction = call.pop("input"), call.pop("target"), call.pop("reduction")
        options = [call.pop(name) for name in self._loss.options]
        return (
            is_ours(x, t)
            and x.shape == t.shape
            and x.dtype == t.dtype
            and x.device == t.device
            and reduction in self._loss.reductions
            and all(_is_taken(option, x) for option in options)
            and all(value is None for value in call.values())
        )

    def compute(self, *args: Any, **kwargs: Any) -> Computed:
        """The loss, in the type of the input; computed in f32 at least."""
        call = self._call(args, kwargs)
        x, t, reduction = call["input"], call["target"], call["reduction"]
        wide = wide_type(x.dtype, t.dtype)
        operands = [
            ltorch.to(a, wide) if isinstance(a, TensorProxy) else a
            for a in (x, t, *(call[name] for name in self._loss.options))
        ]
        terms = self._loss.value(*operands)
        total = terms if reduction == "none" else ltorch.sum(terms)
        counts = {"mean": prod(x.shape), "batchmean": x.shape[0] if x.ndim else 1}
        share = 1 / counts.get(reduction, 1)  # of a term in the loss
        loss = ltorch.to(ltorch.mul(total, share), x.dtype)

        def backward() -> None:
            g = ltorch.mul(ltorch.to(get_grad(loss), wide), share)
            for of, slope in ((x, self._loss.by_input), (t, self._loss.by_target)):
                put_grad(of, ltorch.to(ltorch.mul(g, slope(*operands)), of.dtype))

        return loss, backward

    def _call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)


def _replacement(function: Callable[..., Any], loss: Loss) -> Replacement:
    rule = _Rule(function, loss)
    symbol = ltorch._torch_to_thunder_function_map[function]
    return Replacement(symbol, rule.can_replace, rule.compute)


REPLACED_LOSSES = tuple(_replacement(function, loss) for function, loss in LOSSES.items())
