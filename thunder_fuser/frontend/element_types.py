"""Anything a user may write for a dtype, resolved to a DataType without importing torch."""

from __future__ import annotations

from thunder_fuser.dtypes import DataType

_PYTHON = {
    bool: DataType.Bool,
    int: DataType.Int,
    float: DataType.Double,
    complex: DataType.ComplexDouble,
}
_TORCH = {
    "torch.bool": DataType.Bool,
    "torch.int8": DataType.Int8,
    "torch.uint8": DataType.UInt8,
    "torch.int16": DataType.Int16,
    "torch.int32": DataType.Int32,
    "torch.int64": DataType.Int,
    "torch.float8_e4m3fn": DataType.Float8E4M3,
    "torch.float8_e5m2": DataType.Float8E5M2,
    "torch.float16": DataType.Half,
    "torch.bfloat16": DataType.BFloat16,
    "torch.float32": DataType.Float,
    "torch.float64": DataType.Double,
    "torch.complex64": DataType.ComplexFloat,
    "torch.complex128": DataType.ComplexDouble,
}


def element_type(dtype: object) -> DataType:
    """Of a DataType, a torch dtype or a Python number type. Raises TypeError for others."""
    if isinstance(dtype, DataType):
        return dtype
    found = _PYTHON.get(dtype) if isinstance(dtype, type) else _TORCH.get(str(dtype))
    if found is None:
        supported = ", ".join(d.name for d in DataType)
        raise TypeError(f"unsupported dtype {dtype!r}; supported: {supported}")
    return found
