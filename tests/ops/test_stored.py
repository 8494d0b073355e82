"""What types hold of numbers, against torch's conversions."""

from __future__ import annotations

import math
import random

import pytest
import torch

from thunder_fuser.dtypes import DataType
from thunder_fuser.ops.stored import bounds, rounded, stored, wrapped
from thunder_fuser.runtime.dtypes import TORCH_DTYPES

FLOATS = (DataType.Half, DataType.BFloat16, DataType.Float, DataType.Double)
INTEGERS = (DataType.UInt8, DataType.Int8, DataType.Int16, DataType.Int32, DataType.Int)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats_are_rounded_as_torch_rounds_them(dtype: DataType) -> None:
    drawn = [random.choice((-1, 1)) * 10 ** random.uniform(-12, 12) for _ in range(200)]
    for number in (*drawn, 0.0, 65504.0, 65519.0, 65520.0, 1e300, -1e300, math.inf):
        wanted = torch.tensor(number, dtype=torch.float64).to(TORCH_DTYPES[dtype]).item()
        assert rounded(number, dtype) == wanted, number
    assert math.isnan(rounded(math.nan, dtype))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_keep_the_bits_that_torch_keeps(dtype: DataType) -> None:
    assert bounds(dtype) == (
        torch.iinfo(TORCH_DTYPES[dtype]).min,
        torch.iinfo(TORCH_DTYPES[dtype]).max,
    )
    for number in (random.randint(-(2**63), 2**63 - 1) >> random.randrange(64) for _ in range(200)):
        assert wrapped(number, dtype) == torch.tensor(number).to(TORCH_DTYPES[dtype]).item(), number
    assert wrapped(2**63) == -(2**63)


@pytest.mark.parametrize(
    ("number", "dtype", "wanted"),
    [
        (0.1 + 1e9j, DataType.ComplexFloat, complex(rounded(0.1, DataType.Float), 1e9)),
        (2.5 + 1j, DataType.Int8, 2),
        (-2.9, DataType.Int, -2),
        (0.5, DataType.Bool, True),
        (300, DataType.Half, 300.0),
    ],
)
def test_numbers_take_the_kind_of_their_type(
    number: complex, dtype: DataType, wanted: complex
) -> None:
    found = stored(number, dtype)
    assert (found, type(found)) == (wanted, type(wanted))
