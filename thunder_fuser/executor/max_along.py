"""The largest elements along a dim, with their places, as torch computes the gradient.

    values, places = max(a, dim)
    da = gvalues where the place along dim is it, 0 elsewhere

Thunder's is the gradient of an amax, which equal elements share. In 16 bits many are equal, and to
find them all of `a` is kept and read again, where the places alone tell.
"""

from __future__ import annotations

from typing import Any

import thunder.torch as ltorch
from thunder.core.proxies import TensorProxy
from thunder.core.transforms import get_grad, put_grad

from thunder_fuser.executor.operands import is_ours
from thunder_fuser.executor.replacement import Computed, Replacement


def can_replace(a: Any, dim: Any = None, keepdim: Any = False) -> bool:
    """True for real floating tensors along one of their dims."""
    is_known = type(dim) is int and isinstance(keepdim, bool)
    return is_known and is_ours(a) and type(a) is TensorProxy and -a.ndim <= dim < a.ndim


def compute(a: Any, dim: int, keepdim: bool = False) -> Computed:
    """Values like `a` and their places, i64, the first of several; `dim` is gone, or of size 1."""
    values, places = ltorch.amax(a, dim, keepdim), ltorch.argmax(a, dim, keepdim)

    def backward() -> None:
        given, found = get_grad(values), places
        if not keepdim:
            given, found = ltorch.unsqueeze(given, dim), ltorch.unsqueeze(places, dim)
        own = ltorch.arange(a.shape[dim], device=a.device)
        along = [1] * a.ndim
        along[dim] = a.shape[dim]
        put_grad(a, ltorch.where(ltorch.eq(ltorch.reshape(own, along), found), given, 0.0))

    return (values, places), backward


MAX_ALONG = Replacement(ltorch.torch_max, can_replace, compute)
