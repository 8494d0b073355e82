"""Thunder's dtypes and ours, and numbers beside them."""

from __future__ import annotations

from typing import Any

import thunder.core.dtypes as thunder_dtypes
from thunder.core.proxies import TensorProxy

from thunder_fuser.dtypes import PYTHON_DTYPES, DataType
from thunder_fuser.ops.stored import rounded
from thunder_fuser.runtime.dtypes import TORCH_DTYPES

_TO_OURS = {thunder_dtypes.to_dtype(torchs): ours for ours, torchs in TORCH_DTYPES.items()}


def data_type(dtype: Any) -> DataType | None:
    """The DataType of a Thunder dtype or a Python number type; None where there is none."""
    if isinstance(dtype, type):
        return PYTHON_DTYPES.get(dtype)
    return _TO_OURS.get(thunder_dtypes.to_strong_dtype(dtype))


def rounded_numbers(*operands: Any) -> list[Any]:
    """The operands, of which Python numbers beside floats of 16 bits are rounded to their type."""
    types = [data_type(x.dtype) for x in operands if isinstance(x, TensorProxy)]
    narrow = [dtype for dtype in types if dtype is not None and dtype.is_reduced_precision]
    if not narrow:
        return [*operands]
    return [rounded(x, narrow[0]) if type(x) in (int, float) else x for x in operands]
