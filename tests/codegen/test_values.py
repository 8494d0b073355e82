"""Literals and lane values as C++ text."""

from __future__ import annotations

import math
import random
import struct

import pytest

from thunder_fuser.analysis.digits import Form, atom, combine, evaluate, scale, shift
from thunder_fuser.codegen.values import expression, lane_index, literal
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.domain import axis
from thunder_fuser.kernel.statements import (
    Accuracy,
    Compute,
    Literal,
    Random,
    ReadVector,
    Variable,
)
from thunder_fuser.ops import OPS


def nothing(form: object) -> str:
    return ""


@pytest.mark.parametrize(
    ("dtype", "text"), [(DataType.Int8, "tf::in_8_bits(a - b)"), (DataType.UInt8, "a - b")]
)
def test_what_is_computed_of_signed_bytes_is_told_to_be_one(dtype: DataType, text: str) -> None:
    a, b = Variable("a", dtype), Variable("b", dtype)
    made = Compute(OPS["sub"], (a, b), dtype, Accuracy.NORMAL)
    assert expression(made, dtype, nothing, nothing) == text
    assert expression(ReadVector("v0", 1, 0, dtype), dtype, nothing, nothing) == "v0.v[lane]"


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


def parts_of(index: Form) -> list[Form]:
    """The forms that the text of a random number at `index` is made of."""
    seed, offset = Variable("s0", DataType.Int), Variable("s1", DataType.Int)
    low, high = Literal(0.0, DataType.Double), Literal(1.0, DataType.Double)
    args = low, high, seed, offset
    number, found = Random(OPS["uniform"], args, index, DataType.Float), list[Form]()

    def kept(form: Form) -> str:
        found.append(form)
        return "form"

    expression(number, DataType.Float, kept, lambda windows: "")
    return found


def test_a_random_number_is_counted_in_fours_that_lanes_share() -> None:
    row, vector, lane = axis(7), axis(16), axis(8)
    inner = combine(atom(vector), atom(lane), 8)
    start, rest = parts_of(combine(atom(row), inner, 128))
    assert rest == atom(lane)
    assert start.bases == {row, vector}


@pytest.mark.parametrize("stride", [1, 3, 4, 6, -1, -4])
def test_the_parts_of_a_random_index_add_up_and_the_first_is_of_fours(stride: int) -> None:
    outer, inner = axis(5), axis(8)
    constant = 0 if stride > 0 else -7 * stride
    index = shift(combine(atom(outer), scale(atom(inner), stride), 56), constant)
    start, rest = parts_of(index)
    for point in ({outer: k, inner: n} for k in range(5) for n in range(8)):
        first, more = evaluate(start, point), evaluate(rest, point)
        assert first + more == evaluate(index, point)
        assert first % 4 == 0
        assert min(first, more) >= 0
