"""A clamp that passes on the gradient of what equals a limit, as torch's does.

    y = clamp(x, 0, 1)    =>    t = where(x < 0, 0, x);  y = where(t > 1, 1, t)

Thunder asks whether x > 0, which 0 is not: a parameter that begins at its limit never left it.
"""

from __future__ import annotations

from math import isnan
from typing import Any

import thunder.core.dtypes as dtypes
import thunder.torch as ltorch
import torch
from thunder.core.proxies import TensorProxy

from thunder_fuser.executor.stand_ins import Compose


def clamp(a: Any, min: Any = None, max: Any = None) -> Any:
    """Between numbers; between tensors, or where a limit is NaN, it is Thunder's."""
    limits = [limit for limit in (min, max) if limit is not None]
    is_floating = isinstance(a, TensorProxy) and dtypes.is_float_dtype(a.dtype)
    if not is_floating or not limits or not all(map(_is_limit, limits)):
        return ltorch.clamp(a, min, max)
    if min is not None:
        a = ltorch.where(ltorch.lt(a, min), min, a)
    if max is not None:
        a = ltorch.where(ltorch.gt(a, max), max, a)
    return a


def _is_limit(value: Any) -> bool:
    return type(value) is int or (type(value) is float and not isnan(value))


LIMITS: dict[Any, Compose] = {torch.clamp: clamp}
