"""Between our element types and torch's."""

from __future__ import annotations

import torch

from thunder_fuser.dtypes import DataType

TORCH_DTYPES: dict[DataType, torch.dtype] = {
    DataType.Bool: torch.bool,
    DataType.Int8: torch.int8,
    DataType.UInt8: torch.uint8,
    DataType.Int16: torch.int16,
    DataType.Int32: torch.int32,
    DataType.Int: torch.int64,
    DataType.Float8E4M3: torch.float8_e4m3fn,
    DataType.Float8E5M2: torch.float8_e5m2,
    DataType.Half: torch.float16,
    DataType.BFloat16: torch.bfloat16,
    DataType.Float: torch.float32,
    DataType.Double: torch.float64,
    DataType.ComplexFloat: torch.complex64,
    DataType.ComplexDouble: torch.complex128,
}
DTYPES_OF_TORCH: dict[torch.dtype, DataType] = {t: d for d, t in TORCH_DTYPES.items()}
