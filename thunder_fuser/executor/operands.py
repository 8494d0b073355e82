"""What stands in for an op asks of its operands."""

from __future__ import annotations

from typing import Any

import thunder.core.dtypes as dtypes
from thunder.core.proxies import TensorProxy

from thunder_fuser.executor.claims import claimed_device_type


def is_whole(*tensors: Any) -> bool:
    """True for tensors of static shape, none of it empty."""
    return all(
        isinstance(a, TensorProxy) and all(isinstance(n, int) and n > 0 for n in a.shape)
        for a in tensors
    )


def is_ours(*tensors: Any) -> bool:
    """True for real floating tensors of static shape, none of it empty, on the claimed device."""
    return is_whole(*tensors) and all(
        dtypes.is_float_dtype(a.dtype) and a.device.devicetype is claimed_device_type()
        for a in tensors
    )


def wide_type(*found: dtypes.dtype) -> dtypes.dtype:
    """The type in which sums of elements of these types are made."""
    is_double = any(dtypes.to_strong_dtype(dtype) is dtypes.float64 for dtype in found)
    return dtypes.float64 if is_double else dtypes.float32


def part(a: Any, dim: int, start: int, stop: int) -> Any:
    """The elements of `a` from `start` to `stop` along a dim."""
    key = [slice(None)] * a.ndim
    key[dim] = slice(start, stop)
    return a[tuple(key)]
