"""The gradient of logsumexp without that of the maximum, which it does not depend on.

    y = log(sum(exp(a - m))) + m        da = gy * exp(a - y)

Thunder differentiates what the function is composed of: it looks in the backward for the elements
that are the maximum, counts them, and adds up two gradients that cancel.
"""

from __future__ import annotations

from typing import Any

import thunder.torch as ltorch
from thunder.core.proxies import TensorProxy
from thunder.core.transforms import get_grad, put_grad

from thunder_fuser.executor.operands import is_ours, wide_type
from thunder_fuser.executor.replacement import Computed, Replacement


def can_replace(a: Any, dim: Any, keepdim: bool = False) -> bool:
    """True for real floating `a` that has a dim to reduce, and static extents above zero."""
    return type(a) is TensorProxy and a.ndim > 0 and is_ours(a)


def compute(a: Any, dim: Any, keepdim: bool = False) -> Computed:
    """[..., 1, ...] with `keepdim`, in the type of `a`; computed in f32 at least."""
    wide = _wide_result(a, dim)
    narrow = ltorch.to(wide, a.dtype)
    result = narrow if keepdim else ltorch.squeeze(narrow, dim)

    def backward() -> None:
        g = ltorch.to(get_grad(result), wide.dtype)
        g = ltorch.reshape(g, wide.shape)
        share = ltorch.exp(ltorch.sub(ltorch.to(a, wide.dtype), wide))
        put_grad(a, ltorch.to(ltorch.mul(g, share), a.dtype))

    return result, backward


def _wide_result(a: Any, dim: Any) -> Any:
    """With every dim kept, and in the type that sums are made in."""
    x = ltorch.to(a, wide_type(a.dtype))
    largest = ltorch.amax(x, dim, keepdim=True)
    # Of equal infinities the difference would be NaN.
    largest = ltorch.where(ltorch.eq(ltorch.abs(largest), float("inf")), 0.0, largest)
    total = ltorch.sum(ltorch.exp(ltorch.sub(x, largest)), dim, keepdim=True)
    return ltorch.add(ltorch.log(total), largest)


LOGSUMEXP = Replacement(ltorch.logsumexp, can_replace, compute)
