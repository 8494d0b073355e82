"""Numbers as record keys: dtype tag and bit pattern, as `True == 1 == 1.0` and `0.0 == -0.0`.

    define_scalar(0.1)               =>    ("f64", 0x3fb999999999999a)
    define_scalar(0.1, DataType.Float) =>  ("f32", 0x3fb99999a0000000)

A float is rounded to its dtype first and keyed by the bits of the double that holds the result;
every NaN is one NaN. A complex number has two patterns, an int is its own.
"""

from __future__ import annotations

import math
import operator
import struct
from typing import TypeAlias

from thunder_fuser.dtypes import DataType, real_of
from thunder_fuser.ir.scalar import Number, python_dtype
from thunder_fuser.ops.stored import bounds, rounded

Bits: TypeAlias = "tuple[str, int | tuple[int, int]]"

_QUIET_NAN = 0x7FF8000000000000


def is_number(value: object) -> bool:
    """True for what an op takes as an inline constant: Python's numbers and what acts as an int."""
    return isinstance(value, bool | int | float | complex) or (
        hasattr(value, "__index__") and not hasattr(value, "shape")
    )


def as_number(value: object) -> Number:
    """The Python number. Raises TypeError for anything else, ValueError outside int64."""
    if isinstance(value, bool | float | complex):
        return value
    try:
        integer = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"a constant is a bool, int, float or complex, not {type(value).__name__} {value!r}"
        ) from None
    return as_int64(integer)


def as_int64(value: int) -> int:
    """`value` itself. Raises ValueError outside int64."""
    return as_integer(value, DataType.Int)


def as_integer(value: int, dtype: DataType) -> int:
    """`value` itself. Raises ValueError for what the integers of `dtype` do not hold."""
    low, high = bounds(dtype)
    if not low <= value <= high:
        name = f"{'' if low else 'u'}int{8 * dtype.itemsize}"
        raise ValueError(f"{value} does not fit {name} [{low}, {high}]")
    return value


def encode(value: object, dtype: DataType | None = None) -> Bits:
    """The key of a constant; `dtype` defaults to that of the Python type (int64, f64, c128, bool).

    Raises TypeError for what is no number and for a complex value of a real dtype, ValueError for
    a value that the dtype cannot hold.
    """
    number = as_number(value)
    dtype = dtype or python_dtype(number)
    if dtype.is_complex:
        part = real_of(dtype)
        parts = complex(number)
        return dtype.value, (_float_bits(parts.real, part), _float_bits(parts.imag, part))
    if isinstance(number, complex):
        raise TypeError(f"complex constant {number!r} for the real dtype {dtype}")
    if dtype is DataType.Bool:
        return dtype.value, int(bool(number))
    if dtype.is_integral:
        if isinstance(number, float) and not number.is_integer():
            raise ValueError(f"constant {number!r} is not an integer, dtype {dtype}")
        return dtype.value, as_integer(int(number), dtype)
    return dtype.value, _float_bits(float(number), dtype)


def decode(bits: Bits) -> tuple[Number, DataType]:
    """The number and its dtype. Raises ValueError for an unknown dtype or a malformed pattern."""
    tag, pattern = bits
    dtype = DataType(tag)
    if isinstance(pattern, tuple):
        real, imag = pattern
        return complex(_float_of(real), _float_of(imag)), dtype
    if dtype is DataType.Bool:
        return bool(pattern), dtype
    return (pattern if dtype.is_integral else _float_of(pattern)), dtype


def _float_of(pattern: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<Q", pattern))[0]
    return value


def _float_bits(value: float, dtype: DataType) -> int:
    found = rounded(value, dtype)
    if math.isnan(found):
        return _QUIET_NAN
    bits: int = struct.unpack("<Q", struct.pack("<d", found))[0]
    return bits
