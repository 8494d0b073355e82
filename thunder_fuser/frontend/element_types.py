"""Anything a user may write for a dtype, resolved to a DataType."""

from __future__ import annotations

import torch

from thunder_fuser.dtypes import PYTHON_DTYPES, DataType
from thunder_fuser.runtime.dtypes import DTYPES_OF_TORCH


def element_type(dtype: object) -> DataType:
    """Of a DataType, a torch dtype or a Python number type. Raises TypeError for others."""
    if isinstance(dtype, DataType):
        return dtype
    found = PYTHON_DTYPES.get(dtype) if isinstance(dtype, type) else None
    if isinstance(dtype, torch.dtype):
        found = DTYPES_OF_TORCH.get(dtype)
    if found is None:
        supported = ", ".join(d.name for d in DataType)
        raise TypeError(f"unsupported dtype {dtype!r}; supported: {supported}")
    return found
