"""Losses of classes that Thunder 0.2.6 does not compute as torch does.

    cross_entropy(a, t, weight, ignore_index=i, label_smoothing=s)
      p = log_softmax(a);  n = t != i;  w = where(n, weight[t], 0)
      loss = sum((s - 1) * w * p[t] - s / classes * where(n, sum(weight * p), 0)) / sum(w)

Thunder's smoothed losses count the rows that are to be ignored, and look up their classes; those of
planes do not fit; and a weighted one has no gradient of a sum. What `cross_entropy` and `nll_loss`
replace as a whole stays theirs.
"""

from __future__ import annotations

from typing import Any

import thunder.core.dtypes as dtypes
import thunder.torch as ltorch
import torch.nn.functional as F
from thunder.core.proxies import TensorProxy

from thunder_fuser.executor.nll_loss import REDUCTIONS, at_target, class_dim
from thunder_fuser.executor.operands import is_ours, wide_type
from thunder_fuser.executor.stand_ins import Compose


def _cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    is_plain = weight is None and (input.ndim == 2 or label_smoothing == 0)
    if is_plain or not isinstance(label_smoothing, (int, float)) or not 0 <= label_smoothing <= 1:
        return NotImplemented
    flags = (size_average, reduce)
    if not _is_taken(input, target, weight, flags, ignore_index, reduction):
        return NotImplemented
    wide = ltorch.to(input, wide_type(input.dtype))
    p = ltorch.log_softmax(wide, class_dim(input))
    loss = _loss(p, target, weight, ignore_index, reduction, float(label_smoothing))
    return ltorch.to(loss, input.dtype)


def _nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    flags = (size_average, reduce)
    if weight is None or not _is_taken(input, target, weight, flags, ignore_index, reduction):
        return NotImplemented
    p = ltorch.to(input, wide_type(input.dtype))
    return ltorch.to(_loss(p, target, weight, ignore_index, reduction, 0.0), input.dtype)


def _is_taken(
    a: Any, target: Any, weight: Any, flags: tuple[Any, Any], ignore_index: Any, reduction: Any
) -> bool:
    """True for `a` [rows, classes, ...] or [classes], one class for each row and weights [classes]
    that need no gradient; without torch's deprecated flags."""
    if not is_ours(a) or a.ndim == 0 or not isinstance(target, TensorProxy):
        return False
    rows = [n for k, n in enumerate(a.shape) if k != class_dim(a)]
    classes = (a.shape[class_dim(a)],)
    fits = weight is None or (
        is_ours(weight)
        and weight.shape == classes
        and weight.dtype == a.dtype
        and weight.device == a.device
        and not weight.requires_grad
    )
    return (
        fits
        and list(target.shape) == rows
        and dtypes.is_exact_dtype(target.dtype)
        and target.device == a.device
        and flags == (None, None)
        and isinstance(ignore_index, int)
        and reduction in REDUCTIONS
    )


def _loss(
    p: Any, target: Any, weight: Any, ignore_index: int, reduction: str, smoothing: float
) -> Any:
    """Of log-probabilities `p` [rows, classes, ...] or [classes], in the type of sums."""
    dim = class_dim(p)
    classes = ltorch.to(target, dtypes.int64)
    is_counted = ltorch.ne(classes, ignore_index)
    if weight is None:
        weighted, shares = p, ltorch.to(is_counted, p.dtype)
        losses = at_target(p, classes, is_counted)
    else:
        shape = [p.shape[dim], *(1 for _ in p.shape[dim + 1 :])]
        spread = ltorch.expand(ltorch.reshape(ltorch.to(weight, p.dtype), shape), p.shape)
        weighted = ltorch.mul(spread, p)
        shares = ltorch.where(is_counted, at_target(spread, classes, is_counted), 0.0)
        losses = ltorch.mul(shares, at_target(p, classes, is_counted))
    losses = ltorch.where(is_counted, losses, 0.0)
    losses = ltorch.mul(losses, smoothing - 1.0)
    if smoothing:
        row = ltorch.where(is_counted, ltorch.sum(weighted, dim), 0.0)
        losses = ltorch.sub(losses, ltorch.mul(row, smoothing / p.shape[dim]))
    if reduction == "none":
        return losses
    total = ltorch.sum(losses)
    return ltorch.true_divide(total, ltorch.sum(shares)) if reduction == "mean" else total


CLASS_WEIGHTS: dict[Any, Compose] = {F.cross_entropy: _cross_entropy, F.nll_loss: _nll_loss}
