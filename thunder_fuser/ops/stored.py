"""What a type holds of a number: a float rounded to it, an integer in its bits.

rounded(0.1, Half)    =>    0.0999755859375         rounded(7e4, Half)    =>    inf
wrapped(300, UInt8)   =>    44                      wrapped(200, Int8)    =>    -56
"""

from __future__ import annotations

import math
import struct

from thunder_fuser.dtypes import DataType, real_of

_PACK_CODE = {DataType.Half: "<e", DataType.Float: "<f"}


def stored(value: complex, dtype: DataType) -> bool | int | float | complex:
    """`value` as a number of `dtype`, which drops what it has no room for."""
    if dtype.is_complex:
        whole, part = complex(value), real_of(dtype)
        return complex(rounded(whole.real, part), rounded(whole.imag, part))
    if dtype is DataType.Bool:
        return bool(value)
    real = value.real if isinstance(value, complex) else value
    return wrapped(int(real), dtype) if dtype.is_integral else rounded(float(real), dtype)


def bounds(dtype: DataType) -> tuple[int, int]:
    """The least and the greatest integer of `dtype`."""
    bits = 8 * dtype.itemsize
    return (
        (0, (1 << bits) - 1) if dtype is DataType.UInt8 else (-(1 << bits - 1), (1 << bits - 1) - 1)
    )


def wrapped(value: int, dtype: DataType = DataType.Int) -> int:
    """`value` as an overflow leaves it."""
    low, high = bounds(dtype)
    return low + (value - low & high - low)


def rounded(value: float, dtype: DataType) -> float:
    """The double that holds `value` rounded to the floating `dtype`, to nearest even."""
    if dtype is DataType.Double or not math.isfinite(value):
        return value
    if dtype is DataType.BFloat16:
        return _of_bfloat16(value)
    code = _PACK_CODE[dtype]
    try:
        found: float = struct.unpack(code, struct.pack(code, value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return found


def _of_bfloat16(value: float) -> float:
    """Through f32, as torch does: bf16 is the upper half of an f32."""
    single = rounded(value, DataType.Float)
    if not math.isfinite(single):
        return single
    bits = struct.unpack("<I", struct.pack("<f", single))[0]
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    found: float = struct.unpack("<f", struct.pack("<I", bits))[0]
    return found
