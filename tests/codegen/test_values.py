"""Literals and lane values as C++ text."""

from __future__ import annotations

import math
import random
import struct

import pytest

from thunder_fuser.codegen.values import lane_index, literal
from thunder_fuser.dtypes import DataType


def bits(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def test_an_f32_literal_is_the_nearest_f32_of_the_number() -> None:
    rng = random.Random()
    for _ in range(500):
        value = rng.uniform(-1, 1) * 10.0 ** rng.randint(-30, 30)
        text = literal(value, DataType.Float)
        assert text.endswith("f")
        nearest = struct.unpack("<f", struct.pack("<f", value))[0]
        assert bits(float(text[:-1])) == bits(nearest)


@pytest.mark.parametrize("dtype", [DataType.Half, DataType.BFloat16, DataType.Float])
def test_16_bit_floats_compute_with_f32_literals(dtype: DataType) -> None:
    assert literal(0.1, dtype) == "0.10000000149011612f"


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (True, DataType.Bool, "true"),
        (3, DataType.Int32, "3"),
        (-3, DataType.Int, "-3ll"),
        (-(2**63), DataType.Int, "(-9223372036854775807ll - 1)"),
        (2**63 - 1, DataType.Int, "9223372036854775807ll"),
        (5, DataType.UInt8, "tf::u8(5)"),
        (1, DataType.Float, "1.0f"),
        (-0.0, DataType.Float, "-0.0f"),
        (0.1, DataType.Double, "0.1"),
        (math.inf, DataType.Float, "tf::infinity<float>()"),
        (-math.inf, DataType.Double, "-tf::infinity<double>()"),
        (math.nan, DataType.Half, "tf::nan<float>()"),
        (1e300, DataType.Float, "tf::infinity<float>()"),
        (-1e300, DataType.Float, "-tf::infinity<float>()"),
        (1 - 2j, DataType.ComplexFloat, "tf::complex<float>(1.0f, -2.0f)"),
    ],
)
def test_literals(value: float, dtype: DataType, text: str) -> None:
    assert literal(value, dtype) == text


def test_the_place_of_a_lane_has_no_spare_terms() -> None:
    assert [lane_index(w, d) for w, d in ((0, 0), (0, 3), (1, 0), (1, 4), (2, 1))] == [
        "0",
        "3",
        "lane",
        "lane + 4",
        "2 * lane + 1",
    ]
