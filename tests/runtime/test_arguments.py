"""Packed arguments: the bytes a kernel reads through the array of addresses."""

import ctypes
import math
import struct

import pytest

from thunder_fuser.dtypes import DataType
from thunder_fuser.kernel.source import Parameter
from thunder_fuser.runtime.arguments import Arguments


def scalar(dtype: DataType) -> Parameter:
    return Parameter("s", dtype, is_pointer=False)


def read(arguments: Arguments, slot: int, kind: str) -> tuple[object, ...]:
    table = ctypes.cast(arguments.address, ctypes.POINTER(ctypes.c_void_p))
    address = table[slot]
    assert address is not None
    assert address % 16 == 0
    return struct.unpack(kind, ctypes.string_at(address, struct.calcsize(kind)))


@pytest.mark.parametrize(
    ("dtype", "kind", "value"),
    [
        (DataType.Bool, "?", True),
        (DataType.Int8, "b", -128),
        (DataType.UInt8, "B", 255),
        (DataType.Int16, "h", -32768),
        (DataType.Int32, "i", -(2**31)),
        (DataType.Int, "q", 2**63 - 1),
        (DataType.Half, "f", 1 / 256 + 1),
        (DataType.BFloat16, "f", 1 / 1024 + 1),
        (DataType.Float, "f", -1.5),
        (DataType.Double, "d", 1 / 3),
    ],
)
def test_scalar_lies_in_its_slot(dtype: DataType, kind: str, value: object) -> None:
    arguments = Arguments((scalar(DataType.Double), scalar(dtype), scalar(dtype)))
    arguments.pack(0.5, value, 0)
    assert read(arguments, 1, kind) == (value,)
    assert read(arguments, 0, "d") == (0.5,)
    assert read(arguments, 2, kind) == (0,)


@pytest.mark.parametrize(
    ("dtype", "kind"), [(DataType.ComplexFloat, "ff"), (DataType.ComplexDouble, "dd")]
)
def test_complex_number_is_its_two_parts(dtype: DataType, kind: str) -> None:
    arguments = Arguments((scalar(dtype), scalar(DataType.Int)))
    arguments.pack(1.5 - 2.25j, 7)
    assert read(arguments, 0, kind) == (1.5, -2.25)
    assert read(arguments, 1, "q") == (7,)


@pytest.mark.parametrize("dtype", [DataType.Float, DataType.Half])
@pytest.mark.parametrize("sign", [1, -1])
def test_float_too_large_for_its_type_is_infinite(dtype: DataType, sign: int) -> None:
    arguments = Arguments((scalar(dtype), scalar(DataType.ComplexFloat)))
    arguments.pack(sign * 1e300, complex(0, sign * 1e300))
    assert read(arguments, 0, "f") == (sign * math.inf,)
    assert read(arguments, 1, "ff") == (0, sign * math.inf)


def test_integers_are_legal_floats() -> None:
    arguments = Arguments((scalar(DataType.Float), scalar(DataType.Double)))
    arguments.pack(3, True)
    assert (read(arguments, 0, "f"), read(arguments, 1, "d")) == ((3.0,), (1.0,))


def test_constants_fill_the_last_slots_for_good() -> None:
    lifted = [Parameter(f"n{n}", DataType.Int, is_pointer=False) for n in range(2)]
    arguments = Arguments((Parameter("x", DataType.Float, is_pointer=True), *lifted), (5, -6))
    for address in (64, 2**63 + 64):
        arguments.pack(address)
        assert [read(arguments, slot, "q") for slot in (1, 2)] == [(5,), (-6,)]
        assert read(arguments, 0, "Q") == (address,)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [(DataType.Int, 2**63), (DataType.Int32, 1.5), (DataType.UInt8, -1), (DataType.Float, "one")],
)
def test_impossible_value_names_the_parameter_and_its_type(dtype: DataType, value: object) -> None:
    arguments = Arguments((Parameter("gamma", dtype, is_pointer=False),))
    with pytest.raises(ValueError, match=rf"{value!r} is no value .* gamma \({dtype}\)"):
        arguments.pack(value)


def test_tensor_in_the_place_of_an_address_is_refused() -> None:
    arguments = Arguments((Parameter("x", DataType.Float, is_pointer=True),))
    with pytest.raises(ValueError, match=r"parameter x \(pointer to f32\)"):
        arguments.pack(object())


def test_wrong_number_of_arguments_is_refused() -> None:
    with pytest.raises(TypeError, match="2 arguments for 1 parameters"):
        Arguments((scalar(DataType.Int),)).pack(1, 2)
