"""The arguments of a kernel, packed where the driver (or the host entry) reads them.

Each parameter owns a slot of 16 bytes, and an array holds the slots' addresses. Both are laid out
once; a call writes its values over the last ones.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Sequence

from thunder_fuser.dtypes import DataType
from thunder_fuser.kernel.source import Parameter

SLOT_BYTES = 16  # the widest scalar (complex128), and the strictest alignment

# Scalars are passed in the type that kernels compute in, so there are no 16-bit floats.
_FORMATS = {
    DataType.Bool: "?15x",
    DataType.Int8: "b15x",
    DataType.UInt8: "B15x",
    DataType.Int16: "h14x",
    DataType.Int32: "i12x",
    DataType.Int: "q8x",
    DataType.Float: "f12x",
    DataType.Double: "d8x",
    DataType.ComplexFloat: "ff8x",
    DataType.ComplexDouble: "dd",
}
_POINTER = "Q8x"


class Arguments:
    """Slots for `parameters`; the last ones are filled with `constants` for good.

    `address` is that of the `void**` array. `pack(*values)` takes one value for each of the other
    parameters: addresses for pointers, Python numbers for scalars; a float too large for its type
    becomes infinite, as in torch. It raises TypeError or ValueError naming the parameter.
    """

    def __init__(self, parameters: Sequence[Parameter], constants: Sequence[int] = ()) -> None:
        count = len(parameters)
        # One piece of memory, alive as long as `pack` is: the slots, aligned, then their addresses.
        memory = (ctypes.c_char * ((SLOT_BYTES + 8) * count + SLOT_BYTES))()
        start = -ctypes.addressof(memory) % SLOT_BYTES
        first, table = ctypes.addressof(memory) + start, start + SLOT_BYTES * count
        slots = (first + SLOT_BYTES * slot for slot in range(count))
        struct.pack_into(f"={count}Q", memory, table, *slots)
        given = tuple(parameters[: count - len(constants)])
        for slot, constant in enumerate(constants, len(given)):
            struct.pack_into("<q", memory, start + SLOT_BYTES * slot, constant)
        self.address = ctypes.addressof(memory) + table
        self.pack = _packer(given, memory, start)


def _packer(
    parameters: tuple[Parameter, ...], memory: ctypes.Array[ctypes.c_char], start: int
) -> Callable[..., None]:
    write = struct.Struct("<" + "".join(map(_format, parameters))).pack_into
    needs_splitting = any(not p.is_pointer and p.dtype in _SPLIT for p in parameters)

    def carefully(*values: object) -> None:
        if len(values) != len(parameters):
            raise TypeError(f"{len(values)} arguments for {len(parameters)} parameters")
        pieces: list[object] = []
        for parameter, value in zip(parameters, values, strict=True):
            pieces += _pieces(parameter, value)
        write(memory, start, *pieces)

    def quickly(*values: object) -> None:
        try:
            write(memory, start, *values)
        except (struct.error, OverflowError):
            carefully(*values)

    return carefully if needs_splitting else quickly


def _format(parameter: Parameter) -> str:
    return _POINTER if parameter.is_pointer else _FORMATS[parameter.dtype.compute_type]


def _pieces(parameter: Parameter, value: object) -> tuple[object, ...]:
    """What `struct` is handed for one value. Raises ValueError where the value cannot be held."""
    split = None if parameter.is_pointer else _SPLIT.get(parameter.dtype)
    try:
        pieces = (value,) if split is None else split(value)
        if parameter.dtype.is_floating and not parameter.is_pointer:
            pieces = (_fitting(parameter.dtype.compute_type, value),)
        struct.pack("<" + _format(parameter), *pieces)
    except (struct.error, TypeError, ValueError, OverflowError) as error:
        kind = "pointer to " if parameter.is_pointer else ""
        raise ValueError(
            f"{value!r} is no value for the kernel parameter {parameter.name} "
            f"({kind}{parameter.dtype}): {error}"
        ) from None
    return pieces


def _fitting(dtype: DataType, value: object) -> float:
    """`value` as a float that the format of `dtype` can hold, infinite if it is too large."""
    number = float(value)  # type: ignore[arg-type]
    try:
        struct.pack("<" + _FORMATS[dtype], number)
    except OverflowError:
        return math.copysign(math.inf, number)
    return number


def _complex_parts(part: DataType) -> Callable[[object], tuple[object, ...]]:
    def split(value: object) -> tuple[object, ...]:
        number = complex(value)  # type: ignore[call-overload]
        return _fitting(part, number.real), _fitting(part, number.imag)

    return split


_SPLIT: dict[DataType, Callable[[object], tuple[object, ...]]] = {
    DataType.ComplexFloat: _complex_parts(DataType.Float),
    DataType.ComplexDouble: _complex_parts(DataType.Double),
}
