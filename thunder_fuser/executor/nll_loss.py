"""The negative log-likelihood without the log-probabilities in memory.

    loss[i] = -a[i, t[i]]
    da[i, c] = where(c = t[i], -g[i], 0)

Thunder's backward is torch's kernel, which takes all of `a`: log-probabilities, in f32 where logits
are. It fills a plane with zeros and writes one element of each row. As a selection the gradient
needs the target alone, and is computed where the backward of log_softmax reads it.
"""

from __future__ import annotations

from typing import Any

import thunder.core.dtypes as dtypes
import thunder.torch as ltorch
from thunder.core.proxies import TensorProxy
from thunder.core.transforms import get_grad, put_grad

from thunder_fuser.executor.operands import is_ours, wide_type
from thunder_fuser.executor.replacement import Computed, Replacement

REDUCTIONS = ("none", "sum", "mean")


def can_replace(
    a: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> bool:
    """True for `a` [rows, classes, ...] or [classes] of static shape and int64 classes, without
    weights."""
    if weight is not None or reduction not in REDUCTIONS:
        return False
    if not isinstance(_ignored(ignore_index), int):
        return False
    return has_classes(a, target)


def has_classes(a: Any, target: Any) -> bool:
    """True for `a` [rows, classes, ...] or [classes] of static shape and an int64 class a row."""
    if type(a) is not TensorProxy or type(target) is not TensorProxy or a.ndim == 0:
        return False
    rows = [n for k, n in enumerate(a.shape) if k != class_dim(a)]
    return (
        is_ours(a)
        and list(target.shape) == rows
        and dtypes.to_strong_dtype(target.dtype) is dtypes.int64
        and a.device == target.device
    )


def compute(
    a: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Computed:
    """The loss. A class outside of [0, classes) that is not ignored is an error, as in torch."""
    wide, is_counted = wide_type(a.dtype), ltorch.ne(target, _ignored(ignore_index))
    wanted = ltorch.to(at_target(a, target, is_counted), wide)
    total, count = reduced(ltorch.neg(wanted), is_counted, reduction)
    loss = ltorch.to(total, a.dtype)

    def backward() -> None:
        g = ltorch.to(get_grad(loss), wide)
        if reduction == "mean":
            g = ltorch.true_divide(g, count)
        per_row = ltorch.where(is_counted, ltorch.neg(g), 0.0)
        of_class = ltorch.unsqueeze(per_row, class_dim(a))
        selected = ltorch.where(is_target(a, target, is_counted), of_class, 0.0)
        put_grad(a, ltorch.to(selected, a.dtype))

    return loss, backward


def at_target(a: Any, target: Any, is_counted: Any) -> Any:
    """The element of each row of `a` at its class, shaped like the target; of a row that is not
    counted any element. What is ignored may be no class; any other target is checked where it is
    read."""
    dim = class_dim(a)
    chosen = ltorch.unsqueeze(ltorch.where(is_counted, target, 0), dim)
    return ltorch.squeeze(ltorch.gather(a, dim, chosen), dim)


def is_target(a: Any, target: Any, is_counted: Any) -> Any:
    """Which elements of `a` stand at the class of a row that is counted; [rows, classes, ...]."""
    dim = class_dim(a)
    # In 32 bits: a comparison of each element.
    column = ltorch.to(ltorch.where(is_counted, target, -1), dtypes.int32)
    index = ltorch.arange(a.shape[dim], device=a.device, dtype=dtypes.int32)
    index = ltorch.reshape(index, [a.shape[dim], *(1 for _ in a.shape[dim + 1 :])])
    return ltorch.eq(ltorch.unsqueeze(column, dim), index)


def reduced(values: Any, is_counted: Any, reduction: str) -> tuple[Any, Any]:
    """The losses of all rows by torch's `reduction`, and how many rows are counted."""
    losses = ltorch.where(is_counted, values, 0.0)
    count = ltorch.sum(ltorch.to(is_counted, values.dtype))
    loss = losses if reduction == "none" else ltorch.sum(losses)
    return (ltorch.true_divide(loss, count) if reduction == "mean" else loss), count


def _ignored(ignore_index: int | None) -> int:
    """Torch's own where none is given: Thunder takes another, and has no gradient then."""
    return -100 if ignore_index is None else ignore_index


def class_dim(a: Any) -> int:
    """The dim of `a` [rows, classes, ...] or [classes] that has a place for each class."""
    return 1 if a.ndim > 1 else 0


NLL_LOSS = Replacement(ltorch.nll_loss, can_replace, compute)
