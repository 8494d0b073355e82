"""`x.half()` and its like as conversions that Thunder can see into.

    t0 = ltorch.half(x)    =>    t0 = ltorch.to(x, torch.float16)

Thunder 0.2.6 registers these methods as opaque torch ops; only `float`, `long` and `to` are
decomposed. A conversion joins its region and has Thunder's own gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import thunder.torch as ltorch
import torch

_METHODS = {
    "bfloat16": torch.bfloat16,
    "bool": torch.bool,
    "byte": torch.uint8,
    "cdouble": torch.complex128,
    "cfloat": torch.complex64,
    "char": torch.int8,
    "double": torch.float64,
    "half": torch.float16,
    "int": torch.int32,
    "short": torch.int16,
}


def conversion_lookasides() -> dict[Any, Callable[..., Any]]:
    """Thunder's symbol of each opaque conversion method, and what stands in for it."""
    symbols = ltorch._torch_to_thunder_function_map
    return {
        symbol: _conversion(dtype)
        for name, dtype in _METHODS.items()
        if (symbol := symbols.get(getattr(torch.Tensor, name))) is not None
    }


def _conversion(dtype: torch.dtype) -> Callable[..., Any]:
    def convert(a: Any, memory_format: torch.memory_format = torch.preserve_format) -> Any:
        return ltorch.to(a, dtype, memory_format=memory_format)

    return convert
