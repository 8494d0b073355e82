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

from typing import Any

import thunder.torch as ltorch
from thunder.core.transforms import get_grad, put_grad

from thunder_fuser.executor.nll_loss import REDUCTIONS, at_target, has_classes, is_target, reduced
from thunder_fuser.executor.operands import wide_type
from thunder_fuser.executor.replacement import Computed, Replacement


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


def compute(
    a: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Computed:
    """The loss. A class outside of [0, classes) that is not ignored is an error, as in torch."""
    classes, smoothing = a.shape[1], float(label_smoothing)
    wide = ltorch.to(a, wide_type(a.dtype))
    is_counted = ltorch.ne(target, ignore_index)
    top = ltorch.amax(wide, 1, True)
    below = ltorch.sub(wide, top)
    log_sum = ltorch.log(ltorch.sum(ltorch.exp(below), 1, True))
    most = ltorch.squeeze(top, 1)
    wanted = ltorch.sub(at_target(wide, target, is_counted), most)
    if smoothing:  # of differences: logits may lie far from 0
        mean = ltorch.sub(ltorch.true_divide(ltorch.sum(wide, 1), classes), most)
        wanted = ltorch.add(ltorch.mul(wanted, 1.0 - smoothing), ltorch.mul(mean, smoothing))
    distance = ltorch.sub(ltorch.squeeze(log_sum, 1), wanted)
    total, count = reduced(distance, is_counted, reduction)
    loss = ltorch.to(total, a.dtype)

    def backward() -> None:
        g = ltorch.to(get_grad(loss), below.dtype)
        if reduction == "mean":
            g = ltorch.true_divide(g, count)
        per_row = ltorch.unsqueeze(ltorch.where(is_counted, g, 0.0), 1)
        probability = ltorch.exp(ltorch.sub(below, log_sum))
        spread = smoothing / classes
        others = ltorch.sub(probability, spread) if spread else probability
        chosen = ltorch.sub(probability, 1.0 - smoothing + spread)
        excess = ltorch.where(is_target(a, target, is_counted), chosen, others)
        put_grad(a, ltorch.to(ltorch.mul(excess, per_row), a.dtype))

    return loss, backward


CROSS_ENTROPY = Replacement(ltorch.cross_entropy, can_replace, compute)
