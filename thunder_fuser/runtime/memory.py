"""Look at memory by its address: a launch is handed addresses, a check wants tensors."""

from __future__ import annotations

import ctypes

import torch

from thunder_fuser.analysis.layout import Layout
from thunder_fuser.dtypes import DataType
from thunder_fuser.runtime.dtypes import TORCH_DTYPES


def tensor_at(address: int, layout: Layout, dtype: DataType, device: torch.device) -> torch.Tensor:
    """The tensor that lies at `address`; it shares that memory and does not keep it alive."""
    torch_dtype = TORCH_DTYPES[dtype]
    size = layout.span * dtype.itemsize
    if size == 0:
        return torch.empty_strided(layout.shape, layout.strides, dtype=torch_dtype, device=device)
    raw = _bytes_on_gpu(address, size, device) if device.type == "cuda" else bytes_at(address, size)
    return raw.view(torch_dtype).as_strided(layout.shape, layout.strides)


def bytes_at(address: int, size: int) -> torch.Tensor:
    """CPU memory as a tensor of bytes."""
    return torch.frombuffer((ctypes.c_char * size).from_address(address), dtype=torch.uint8)


def _bytes_on_gpu(address: int, size: int, device: torch.device) -> torch.Tensor:
    return torch.as_tensor(_Described(address, size), device=device)


class _Described:
    """GPU memory in the words that libraries describe it to each other with."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }
