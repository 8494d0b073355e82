"""Log-probabilities as torch computes them.

    y = (a - m) - log(sum(exp(a - m)))        m = max(a)
    da = gy - exp(y) * sum(gy)

Thunder subtracts logsumexp. That is a sum of the maximum, so far from zero it has few digits left
for the logarithm, and it guards the maximum against infinities: a row with an infinite logit would
be -inf and one NaN, where torch has NaN in all of it.
"""

from __future__ import annotations

from typing import Any

import thunder.core.dtypes as dtypes
import thunder.torch as ltorch
from thunder.core.proxies import TensorProxy
from thunder.core.transforms import get_grad, put_grad

from thunder_fuser.executor.claims import claimed_device_type
from thunder_fuser.executor.operands import wide_type
from thunder_fuser.executor.replacement import Computed, Replacement


def can_replace(a: Any, dim: Any, *, dtype: Any = None) -> bool:
    """True for real floating results of a tensor that has dims, and static extents above zero."""
    return (
        type(a) is TensorProxy
        and type(dim) is int
        and -a.ndim <= dim < a.ndim
        and all(isinstance(n, int) and n > 0 for n in a.shape)
        and dtypes.is_float_dtype(_result_dtype(a, dtype))
        and (dtypes.is_float_dtype(a.dtype) or dtypes.is_exact_dtype(a.dtype))
        and a.device.devicetype is claimed_device_type()
    )


def compute(a: Any, dim: int, *, dtype: Any = None) -> Computed:
    """Shaped like `a`, in `dtype` or its own; computed in f32 at least. The gradient is of the
    rounded result, as torch has it, so that no more than the result has to be kept."""
    wide = wide_type(_result_dtype(a, dtype))
    x = ltorch.to(a, wide)
    below = ltorch.sub(x, ltorch.amax(x, dim, keepdim=True))
    log_sum = ltorch.log(ltorch.sum(ltorch.exp(below), dim, keepdim=True))
    result = ltorch.to(ltorch.sub(below, log_sum), _result_dtype(a, dtype))

    def backward() -> None:
        g = ltorch.to(get_grad(result), wide)
        share = ltorch.mul(ltorch.exp(ltorch.to(result, wide)), ltorch.sum(g, dim, keepdim=True))
        put_grad(a, ltorch.to(ltorch.sub(g, share), a.dtype))

    return result, backward


def _result_dtype(a: Any, dtype: Any) -> dtypes.dtype:
    return a.dtype if dtype is None else dtypes.to_dtype(dtype)


LOG_SOFTMAX = Replacement(ltorch.log_softmax, can_replace, compute)
