"""Types of tensors that hold beside those of others, as torch's do.

    i * 0.1 + h         f32 for integers i and f16 h; to Thunder the f32 of `i * 0.1` is weak, and
                        the sum f16
    x.sum()[None] * h   the same for f32 x

A tensor of rank 0 stays weak, as torch's is: with tensors of a rank it has their type. What bools
become beside whole numbers is `bool_numbers.py`'s.
"""

from __future__ import annotations

from typing import Any

import thunder.core.dtypes as dtypes

from thunder_fuser.executor.storage import tensors

_OF_INTEGERS = (
    "acos", "acosh", "add", "addcdiv", "addcmul", "asin", "asinh", "atan", "atan2", "atanh",
    "clamp", "clamp_max", "clamp_min", "cos", "cosh", "digamma", "div", "divide", "erf", "erfc",
    "erfinv", "exp", "exp2", "expm1", "fmod", "lerp", "lgamma", "log", "log10", "log1p", "log2",
    "masked_fill", "maximum", "minimum", "mul", "multiply", "ndtri", "pow", "reciprocal",
    "remainder", "rsqrt", "rsub", "sigmoid", "sin", "sinh", "sqrt", "sub", "subtract", "tan",
    "tanh", "true_divide", "where",
)  # fmt: skip
_OF_RANK_0 = (
    "amax", "amin", "cat", "expand", "expand_as", "flatten", "mean", "norm", "prod", "repeat",
    "reshape", "stack", "std", "sum", "unsqueeze", "var", "view", "view_as",
)  # fmt: skip


def may_be_weak(function: Any) -> bool:
    """True for torch's functions, and methods, that give floats of integers, or tensors of a rank
    of those of none: so Thunder computes what a reduction keeps dims of."""
    return getattr(function, "__name__", "") in (*_OF_INTEGERS, *_OF_RANK_0)


def strengthened(result: Any) -> Any:
    """`result`, whose tensors' types hold beside others. Only promotion reads whether one is weak,
    from an attribute that Thunder sets when it makes a proxy."""
    for proxy in tensors([result] if not isinstance(result, (tuple, list)) else result):
        if proxy.ndim > 0 and dtypes.is_float_dtype(proxy.dtype):
            proxy._true_dtype = proxy.dtype
    return result
