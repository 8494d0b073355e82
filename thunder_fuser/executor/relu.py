"""A relu that keeps what is no number, as torch's does, and passes its gradient on.

    y = where(a <= 0, 0, a)        ga = where(a <= 0, 0, gy)

Thunder asks whether a > 0, which a NaN is not: 0 hid it from whoever looks for NaNs in results.
"""

from __future__ import annotations

from typing import Any

import thunder.core.dtypes as dtypes
import thunder.torch as ltorch
from thunder.core.proxies import TensorProxy
from thunder.core.transforms import get_grad, put_grad

from thunder_fuser.executor.claims import claimed_device_type
from thunder_fuser.executor.replacement import Computed, Replacement


def can_replace(a: Any, inplace: bool = False) -> bool:
    """True for real floating tensors: integers have no NaN."""
    return (
        type(a) is TensorProxy
        and inplace is False
        and dtypes.is_float_dtype(a.dtype)
        and a.device.devicetype is claimed_device_type()
    )


def compute(a: Any, inplace: bool = False) -> Computed:
    """Shaped like `a`, in its type."""
    is_below = ltorch.le(a, 0)
    result = ltorch.where(is_below, 0, a)

    def backward() -> None:
        put_grad(a, ltorch.where(is_below, 0, get_grad(result)))

    return result, backward


RELU = Replacement(ltorch.relu, can_replace, compute)
