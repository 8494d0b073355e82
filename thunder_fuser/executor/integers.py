"""Composites of Thunder's that give other values of integers than torch's op.

    y = hardtanh(x, -1.0, 1.0)    x: i64    =>    y = hardtanh(x, -1, 1)
    y = floor_divide(x, -3)       x: u8     =>    y = div(x, -3, rounding_mode="trunc")
    y = add(x, n)                 x: u8[8], n: i64[]    =>    y = add(x, convert(n, u8))

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


def _whole_quotient(a: Any, b: Any) -> Any:
    found = _floor_divide(a, b)
    return ltorch.floor_divide(a, b) if found is NotImplemented else found


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


def _in_8_bits(symbol: Callable[..., Any]) -> Compose:
    """Whole numbers without dims have the type of the tensors beside them; of those of 8 bits and
    of the other sign Thunder makes int16."""

    def computed(*args: Any, **kwargs: Any) -> Any:
        types = {a.dtype for a in args if isinstance(a, TensorProxy) and a.ndim > 0}
        types.discard(dtypes.bool8)
        if types not in ({dtypes.uint8}, {dtypes.int8}):
            return NotImplemented
        (dtype,) = types
        given = [ltorch.to(a, dtype) if _is_number(a) and a.dtype != dtype else a for a in args]
        is_same = all(a is b for a, b in zip(args, given, strict=True))
        return NotImplemented if is_same else symbol(*given, **kwargs)

    return computed


def _is_number(value: Any) -> bool:
    """True for a tensor of integers without dims."""
    is_tensor = isinstance(value, TensorProxy) and value.ndim == 0
    return is_tensor and dtypes.is_nonboolean_integer_dtype(value.dtype)


_divide, _divide_ = _rounded_by(ltorch.div), _rounded_by(ltorch.div_)

# Taken before those of `INTEGERS`. Operators call symbols of Thunder 0.2.6 that are not those of
# torch.add and torch.mul.
NATURALS: dict[Any, Compose] = {
    ltorch.add: _in_8_bits(ltorch.add),
    ltorch.mul: _in_8_bits(ltorch.mul),
    torch.add: _in_8_bits(ltorch.add),
    torch.bitwise_and: _in_8_bits(ltorch.bitwise_and),
    torch.bitwise_or: _in_8_bits(ltorch.bitwise_or),
    torch.bitwise_xor: _in_8_bits(ltorch.bitwise_xor),
    torch.floor_divide: _in_8_bits(_whole_quotient),
    torch.fmod: _in_8_bits(ltorch.fmod),
    torch.maximum: _in_8_bits(ltorch.maximum),
    torch.minimum: _in_8_bits(ltorch.minimum),
    torch.mul: _in_8_bits(ltorch.mul),
    torch.pow: _in_8_bits(ltorch.pow),
    torch.remainder: _in_8_bits(ltorch.remainder),
    torch.sub: _in_8_bits(ltorch.sub),
    torch.where: _in_8_bits(ltorch.where),
}
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
