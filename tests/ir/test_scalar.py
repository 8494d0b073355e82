"""Scalars: equal means identical, constants fold, symbols bind."""

from __future__ import annotations

import math
from enum import IntEnum

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ops import op

N, M = sc.symbol("n"), sc.symbol("m")
NUMBERS = st.one_of(st.booleans(), st.integers(), st.floats(), st.complex_numbers())


def test_equal_scalars_are_one_object() -> None:
    assert sc.constant(3) is sc.constant(3)
    assert sc.symbol("n") is N
    assert sc.add(N, sc.constant(3)) is sc.add(N, sc.constant(3))
    assert sc.constant(math.nan) is sc.constant(-math.nan)


@pytest.mark.parametrize(("a", "b"), [(1, 1.0), (1, True), (0.0, -0.0), (1.0, 1 + 0j), (0, False)])
def test_numbers_that_python_calls_equal_stay_apart(a: sc.Number, b: sc.Number) -> None:
    assert a == b
    assert sc.constant(a) is not sc.constant(b)


def test_a_type_is_part_of_a_scalar() -> None:
    assert sc.constant(1, DataType.Int32) is not sc.constant(1)
    assert sc.symbol("n", DataType.Double) is not N


def test_neutral_operands_leave_the_other() -> None:
    zero, one = sc.constant(0), sc.constant(1)
    assert sc.add(N, zero) is sc.add(zero, N) is N
    assert sc.sub(N, zero) is N
    assert sc.sub(N, N) is zero
    assert sc.mul(N, one) is sc.mul(one, N) is N
    assert sc.ceil_div(N, one) is N
    assert str(sc.sub(zero, N)) == "sub(0, n)"


@given(a=st.integers(-50, 50), b=st.integers(1, 9))
def test_constants_fold(a: int, b: int) -> None:
    x, y = sc.constant(a), sc.constant(b)
    found = [sc.static_int(f(x, y)) for f in (sc.add, sc.sub, sc.mul, sc.ceil_div)]
    assert found == [a + b, a - b, a * b, math.ceil(a / b)]


def test_binding_folds_as_far_as_it_goes() -> None:
    value = sc.add(sc.mul(N, sc.constant(4)), M)
    assert str(sc.bind(value, {N: 3})) == "add(12, m)"
    assert sc.bind(value, {N: 3, M: 5}) is sc.constant(17)
    assert sc.bind(value, {}) is value
    assert list(sc.symbols_of(value)) == [N, M]


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (2.9, DataType.Int, 2),
        (-2.9, DataType.Int, -2),
        (3, DataType.Double, 3.0),
        (2, DataType.Bool, True),
        (1 + 2j, DataType.Double, 1.0),
        (1, DataType.ComplexDouble, 1 + 0j),
    ],
)
def test_a_value_takes_the_type_of_its_row(
    value: sc.Number, dtype: DataType, expected: sc.Number
) -> None:
    found = sc.evaluate_row(op("add"), [value, 0], dtype)
    assert (found, type(found)) == (expected, type(expected))


def test_a_symbol_stands_for_a_number_of_its_type_whatever_it_is_given() -> None:
    a, b = sc.symbol("a", DataType.Double), sc.symbol("b", DataType.Double)
    for name, x, y, want in (("div", 7, 2, 3.5), ("pow", 2, -1, 0.5), ("add", 1, True, 2.0)):
        made = sc.scalar_expr(op(name), (a, b), DataType.Double)
        assert sc.bind(made, {a: x, b: y}) is sc.constant(want)
    flipped = sc.scalar_expr(op("bitwise_not"), (N,), DataType.Int)
    assert sc.bind(flipped, {N: True}) is sc.constant(-2)


@pytest.mark.parametrize("name", ["div", "fmod", "mod", "remainder", "ceil_div"])
def test_an_integer_is_not_divided_by_zero(name: str) -> None:
    quotient = sc.scalar_expr(op(name), (N, M), DataType.Int)
    with pytest.raises(ValueError, match=rf"{name}\(5, 0\) has no value"):
        sc.bind(quotient, {N: 5, M: 0})
    assert isinstance(sc.bind(quotient, {N: 5, M: 2}), sc.Constant)


@given(value=NUMBERS)
def test_a_printed_number_is_the_number(value: sc.Number) -> None:
    read = eval(sc.format_number(value))
    assert sc.number_bits(read) == sc.number_bits(value)


def test_a_subclass_of_a_number_is_printed_as_the_number() -> None:
    class Size(IntEnum):
        LARGE = 7

    numbers = (numpy.float64(0.5), numpy.float64(math.nan), numpy.complex128(1 - 2j), Size.LARGE)
    texts = ["0.5", 'float("nan")', "complex(1.0, -2.0)", "7"]
    assert [sc.format_number(number) for number in numbers] == texts
