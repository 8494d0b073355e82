"""Running sums: `cumsum` is no prim in Thunder 0.2.6, so it is claimed as the symbol it is."""

from __future__ import annotations

from typing import Any

import thunder.torch as ltorch
from thunder.core.dtypes import is_complex_dtype, to_dtype
from thunder.core.proxies import NumberProxy
from thunder.core.symbol import BoundSymbol

from thunder_fuser.executor.dtypes import data_type

SYMBOL = ltorch.cumsum


def is_scan(bsym: BoundSymbol) -> bool:
    """True for a running sum, which is computed once."""
    return bool(bsym.sym.id == SYMBOL.id)


def refusal(a: Any, dim: int, *, dtype: Any = None) -> str | None:
    """Why a region cannot hold a cumsum of these arguments, None if it can."""
    kinds = [a.dtype] if dtype is None else [a.dtype, to_dtype(dtype)]
    if any(data_type(kind) is None or is_complex_dtype(kind) for kind in kinds):
        return f"the running sum of {' as '.join(map(str, kinds))}"
    if a.ndim == 0:
        return "it runs along a dim of a tensor that has none"
    if any(isinstance(n, NumberProxy) for n in a.shape):
        return "a running sum over an extent that is not static"
    return None


def translate(fd: Any, a: Any, dim: int, *, dtype: Any = None) -> Any:
    """Record a cumsum; `dtype` is that of the operand and of the result."""
    if dtype is None:
        return fd.ops.cumsum(a, dim)
    return fd.ops.cast(fd.ops.cumsum(fd.ops.cast(a, dtype), dim), dtype)
