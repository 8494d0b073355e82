"""Cross entropy without the log-probabilities in memory.

    loss[i] = log(sum(exp(x[i, :] - max[i]))) - (x[i, t[i]] - max[i])
    dx[i, c] = g[i] * (softmax(x[i, :])[c] - [c = t[i]])

    smoothed by s: in place of x[i, t[i]]   (1 - s) * x[i, t[i]] + s * mean(x[i, :])
                   in place of [c = t[i]]   (1 - s) * [c = t[i]] + s / classes

Thunder composes it of log_softmax and a gather, and saves the log-probabilities. Here forward and
backward each read the logits once, and the backward needs two numbers per row beside them: it finds
the target by comparing with the class index.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import thunder.torch as ltorch
from thunder.core.transforms import get_grad, put_grad

from thunder_fuser.executor.compositions import wide_type
from thunder_fuser.executor.nll_loss import (
    REDUCTIONS,
    at_target,
    has_classes,
    is_target,
    reduced,
)

SYMBOL = ltorch.cross_entropy


def can_replace(
    a: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> bool:
    """True for logits [rows, classes] and classes [rows] of static shape, without weights."""
    if any(option is not None for option in (weight, size_average, reduce)):
        return False
    if not (isinstance(label_smoothing, (int, float)) and 0 <= label_smoothing <= 1):
        return False
    if reduction not in REDUCTIONS or not isinstance(ignore_index, int):
        return False
    return has_classes(a, target) and a.ndim == 2


def forward(a: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
    """The loss. A class outside of [0, classes) that is not ignored is an error, as in torch."""
    loss, _ = _loss(a, target, _options(*args, **kwargs))
    return loss


def gradient(a: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
    """The loss, with the rule for the gradient of the logits."""
    options = _options(*args, **kwargs)
    loss, parts = _loss(a, target, options)
    g = ltorch.to(get_grad(loss), parts.below_max.dtype)
    if options.reduction == "mean":
        g = ltorch.true_divide(g, parts.count)
    per_row = ltorch.unsqueeze(ltorch.where(parts.is_counted, g, 0.0), 1)
    probability = ltorch.exp(ltorch.sub(parts.below_max, parts.log_sum))
    spread = options.smoothing / a.shape[1]
    others = ltorch.sub(probability, spread) if spread else probability
    chosen = ltorch.sub(probability, 1.0 - options.smoothing + spread)
    excess = ltorch.where(is_target(a, target, parts.is_counted), chosen, others)
    put_grad(a, ltorch.to(ltorch.mul(excess, per_row), a.dtype))
    return loss


class _Parts(NamedTuple):
    """`below_max` is [rows, classes], `log_sum` [rows, 1], `is_counted` [rows]."""

    below_max: Any
    log_sum: Any
    is_counted: Any
    count: Any


class _Options(NamedTuple):
    ignore_index: int
    reduction: str
    smoothing: float


def _options(
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> _Options:
    return _Options(ignore_index, reduction, float(label_smoothing))


def _loss(a: Any, target: Any, options: _Options) -> tuple[Any, _Parts]:
    classes = a.shape[1]
    wide = ltorch.to(a, wide_type(a.dtype))
    is_counted = ltorch.ne(target, options.ignore_index)
    top = ltorch.amax(wide, 1, True)
    below = ltorch.sub(wide, top)
    log_sum = ltorch.log(ltorch.sum(ltorch.exp(below), 1, True))
    wanted = at_target(wide, target, is_counted)
    if options.smoothing:
        mean = ltorch.true_divide(ltorch.sum(wide, 1), classes)
        share = ltorch.mul(mean, options.smoothing)
        wanted = ltorch.add(ltorch.mul(wanted, 1.0 - options.smoothing), share)
    picked = ltorch.sub(wanted, ltorch.squeeze(top, 1))
    distance = ltorch.sub(ltorch.squeeze(log_sum, 1), picked)
    loss, count = reduced(distance, is_counted, options.reduction)
    return ltorch.to(loss, a.dtype), _Parts(below, log_sum, is_counted, count)
