"""Thunder's dtypes and ours."""

from __future__ import annotations

from typing import Any

import thunder.core.dtypes as thunder_dtypes

from thunder_fuser.dtypes import DataType

_TO_OURS: dict[Any, DataType] = {
    thunder_dtypes.bool8: DataType.Bool,
    thunder_dtypes.int8: DataType.Int8,
    thunder_dtypes.uint8: DataType.UInt8,
    thunder_dtypes.int16: DataType.Int16,
    thunder_dtypes.int32: DataType.Int32,
    thunder_dtypes.int64: DataType.Int,
    thunder_dtypes.float8_e4m3fn: DataType.Float8E4M3,
    thunder_dtypes.float8_e5m2: DataType.Float8E5M2,
    thunder_dtypes.float16: DataType.Half,
    thunder_dtypes.bfloat16: DataType.BFloat16,
    thunder_dtypes.float32: DataType.Float,
    thunder_dtypes.float64: DataType.Double,
    thunder_dtypes.complex64: DataType.ComplexFloat,
    thunder_dtypes.complex128: DataType.ComplexDouble,
    bool: DataType.Bool,
    int: DataType.Int,
    float: DataType.Double,
    complex: DataType.ComplexDouble,
}


def data_type(dtype: Any) -> DataType | None:
    """The DataType of a Thunder dtype or a Python number type; None where there is none."""
    strong = dtype if isinstance(dtype, type) else thunder_dtypes.to_strong_dtype(dtype)
    return _TO_OURS.get(strong)
