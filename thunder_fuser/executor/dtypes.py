"""Thunder's dtypes and ours."""

from __future__ import annotations

from typing import Any

import thunder.core.dtypes as thunder_dtypes

from thunder_fuser.dtypes import PYTHON_DTYPES, DataType
from thunder_fuser.runtime.dtypes import TORCH_DTYPES

_TO_OURS = {thunder_dtypes.to_dtype(torchs): ours for ours, torchs in TORCH_DTYPES.items()}


def data_type(dtype: Any) -> DataType | None:
    """The DataType of a Thunder dtype or a Python number type; None where there is none."""
    if isinstance(dtype, type):
        return PYTHON_DTYPES.get(dtype)
    return _TO_OURS.get(thunder_dtypes.to_strong_dtype(dtype))
