"""Composites of Thunder's that give other values of integers than torch's op.

    y = hardtanh(x, -1.0, 1.0)    x: i64    =>    y = hardtanh(x, -1, 1)
    y = floor_divide(x, -3)       x: u8     =>    y = div(x, -3, rounding_mode="trunc")

Torch takes the numbers in the type of the tensor; beside an integer Thunder's floats make floats.
Nothing unsigned is below zero: -3 is 253 in u8, where Thunder asks the number for its sign.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import thunder.core.dtypes as dtypes
import thunder.torch as ltorch
import torch
import torch.nn.functional as F
from thunder.core.proxies import TensorProxy

from thunder_fuser.executor.stand_ins import Compose


def _hardtanh(a: Any, min_val: Any = -1.0, max_val: Any = 1.0, inplace: bool = False) -> Any:
    if not _are_whole(a, min_val, max_val):
        return NotImplemented
    if _is_unsigned(a) and min(min_val, max_val) < 0:
        raise RuntimeError(
            f"hardtanh of uint8 between {min_val} and {max_val}: nothing in uint8 is below 0; give "
            "limits from 0, or convert its input first, as in x.int()"
        )
    return ltorch.hardtanh(a, int(min_val), int(max_val), inplace)


def _hardtanh_(a: Any, min_val: Any = -1.0, max_val: Any = 1.0) -> Any:
    return _hardtanh(a, min_val, max_val, True)


def _threshold(a: Any, threshold: Any, value: Any, inplace: bool = False) -> Any:
    if not _are_whole(a, threshold, value):
        return NotImplemented
    return ltorch.threshold(a, int(threshold), int(value), inplace)


def _threshold_(a: Any, threshold: Any, value: Any) -> Any:
    return _threshold(a, threshold, value, True)


def _are_whole(a: Any, *numbers: Any) -> bool:
    """True for a tensor of integers, beside numbers of which the type is not yet the tensor's."""
    is_exact = isinstance(a, TensorProxy) and dtypes.is_exact_dtype(a.dtype)
    return is_exact and all(type(n) in (int, float) for n in numbers)


def _floor_divide(a: Any, b: Any) -> Any:
    return _divide(a, b, rounding_mode="floor")


def _floor_divide_(a: Any, b: Any) -> Any:
    return _divide_(a, b, rounding_mode="floor")


def _rounded_by(divide: Callable[..., Any]) -> Compose:
    def rounded(a: Any, b: Any, *, rounding_mode: str | None = None) -> Any:
        is_natural = rounding_mode == "floor" and all(map(_is_unsigned, (a, b)))
        return divide(a, b, rounding_mode="trunc") if is_natural else NotImplemented

    return rounded


def _is_unsigned(value: Any) -> bool:
    """True for a tensor of uint8 and for a whole number, which becomes uint8 beside it."""
    if isinstance(value, TensorProxy):
        return bool(dtypes.to_strong_dtype(value.dtype) is dtypes.uint8)
    return type(value) is int


_divide, _divide_ = _rounded_by(ltorch.div), _rounded_by(ltorch.div_)

INTEGERS: dict[Any, Compose] = {
    F.hardtanh: _hardtanh,
    F.hardtanh_: _hardtanh_,
    F.threshold: _threshold,
    torch.div: _divide,
    torch.divide: _divide,
    torch.floor_divide: _floor_divide,
    torch.threshold_: _threshold_,
    torch.Tensor.div_: _divide_,
    torch.Tensor.floor_divide_: _floor_divide_,
}
