"""`x.half()` and its like as conversions that Thunder can see into.

    t0 = ltorch.half(x)    =>    t0 = ltorch.to(x, torch.float16)

Thunder 0.2.6 registers these methods as opaque torch ops; only `float`, `long` and `to` are
decomposed. A conversion joins its region and has Thunder's own gradient.
"""

from __future__ import annotations

from typing import Any

import thunder.torch as ltorch
import torch

from thunder_fuser.executor.stand_ins import Compose


def _conversion(dtype: torch.dtype) -> Compose:
    def convert(a: Any, memory_format: torch.memory_format = torch.preserve_format) -> Any:
        return ltorch.to(a, dtype, memory_format=memory_format)

    return convert


CONVERSIONS: dict[Any, Compose] = {
    torch.Tensor.bfloat16: _conversion(torch.bfloat16),
    torch.Tensor.bool: _conversion(torch.bool),
    torch.Tensor.byte: _conversion(torch.uint8),
    torch.Tensor.cdouble: _conversion(torch.complex128),
    torch.Tensor.cfloat: _conversion(torch.complex64),
    torch.Tensor.char: _conversion(torch.int8),
    torch.Tensor.double: _conversion(torch.float64),
    torch.Tensor.half: _conversion(torch.float16),
    torch.Tensor.int: _conversion(torch.int32),
    torch.Tensor.short: _conversion(torch.int16),
}
