"""Gradients of functions whose parts overflow where they themselves do not.

    sigmoid(x) = 1 / (1 + exp(-x))        at x = -100 the derivatives of its parts are inf and 0

Thunder 0.2.6 takes them part by part, which gives NaN; torch's are finite. They are registered
beside Thunder's own, once, where there is none for the function as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import thunder.core.dtypes as dtypes
import thunder.core.prims as prims
import thunder.torch as ltorch
from thunder.core.prims import PrimIDs
from thunder.core.transforms import get_grad, put_grad, restore_reduced_dims

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805  # Klambauer et al. 2017, section 3


def _sigmoid(a: Any) -> Any:
    result = ltorch.sigmoid(a)
    put_grad(a, ltorch.mul(get_grad(result), ltorch.mul(result, ltorch.sub(1.0, result))))
    return result


def _elu(a: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    result = ltorch.elu(a, alpha, inplace)
    put_grad(a, _exponential_below(a, get_grad(result), alpha))
    return result


def _celu(a: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    result = ltorch.celu(a, alpha, inplace)
    put_grad(a, _exponential_below(a, get_grad(result), 1.0, 1.0 / alpha))
    return result


def _selu(a: Any, inplace: bool = False) -> Any:
    result = ltorch.selu(a, inplace)
    g = ltorch.mul(get_grad(result), SELU_SCALE)
    put_grad(a, _exponential_below(a, g, SELU_ALPHA))
    return result


def _mish(a: Any, inplace: bool = False) -> Any:
    """x * t with t = tanh(log(1 + exp(x)))"""
    result = ltorch.mish(a, inplace)
    t = ltorch.tanh(ltorch.softplus(a))
    bend = ltorch.mul(ltorch.sub(1.0, ltorch.mul(t, t)), ltorch.sigmoid(a))
    put_grad(a, ltorch.mul(get_grad(result), ltorch.add(t, ltorch.mul(a, bend))))
    return result


def _prod(a: Any, dims: Any) -> Any:
    """To the only zero of a row goes the product of the others."""
    result = prims.prod(a, dims)
    is_zero = ltorch.eq(a, 0)
    count = ltorch.to(is_zero, dtypes.float32)
    known = ltorch.where(is_zero, 1, a)
    product = ltorch.mul(get_grad(result), prims.prod(known, dims))
    zeros, others = (
        restore_reduced_dims(t, dims, a.shape) for t in (prims.sum(count, dims), product)
    )
    g = ltorch.true_divide(others, known)
    put_grad(a, ltorch.where(ltorch.eq(zeros, count), g, 0))
    return result


def _atan2(a: Any, b: Any) -> Any:
    """0 at the origin."""
    result = prims.atan2(a, b)
    square = ltorch.add(ltorch.mul(a, a), ltorch.mul(b, b))
    g = ltorch.true_divide(get_grad(result), ltorch.where(ltorch.eq(square, 0), 1, square))
    put_grad(a, ltorch.mul(g, b))
    put_grad(b, ltorch.neg(ltorch.mul(g, a)))
    return result


def _exponential_below(a: Any, g: Any, alpha: float, rate: float = 1.0) -> Any:
    """The gradient of x above 0, and of alpha / rate * (exp(rate * x) - 1) below."""
    below = ltorch.where(ltorch.gt(a, 0.0), 0.0, a)
    bent = ltorch.mul(ltorch.exp(ltorch.mul(below, rate)), alpha)
    return ltorch.where(ltorch.gt(a, 0.0), g, ltorch.mul(g, bent))


GRADIENTS: dict[str, Callable[..., Any]] = {
    "torch.celu": _celu,
    "torch.nn.functional.elu": _elu,
    "torch.nn.functional.mish": _mish,
    "torch.selu": _selu,
    "torch.sigmoid": _sigmoid,
}
# Of functions of which Thunder's gradient divides by zero.
AT_ZERO: dict[Any, Callable[..., Any]] = {PrimIDs.ATAN2: _atan2, PrimIDs.PROD: _prod}
