"""Scalars: numbers, extents, and what is computed from them on the host. They are interned: equal
means identical.

A scalar never becomes a node of a segment graph; it is folded, or bound once per launch.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias
from weakref import WeakValueDictionary

from thunder_fuser.dtypes import DataType
from thunder_fuser.locks import new_reentrant_lock
from thunder_fuser.ops import OpDef, op
from thunder_fuser.ops.host import HOST
from thunder_fuser.ops.stored import stored

Number: TypeAlias = bool | int | float | complex


@dataclass(frozen=True, eq=False)
class Constant:
    """A number known when the fusion is defined."""

    value: Number
    dtype: DataType

    def __str__(self) -> str:
        return format_number(self.value)


@dataclass(frozen=True, eq=False)
class Symbol:
    """A number bound at run time: an extent (`i0`) or a scalar input (`S2`)."""

    name: str
    dtype: DataType

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class ScalarExpr:
    """An operation on scalars, evaluated on the host."""

    op: OpDef
    args: tuple[Scalar, ...]
    dtype: DataType

    def __str__(self) -> str:
        return f"{self.op.name}({', '.join(map(str, self.args))})"


Scalar: TypeAlias = Constant | Symbol | ScalarExpr

_INTERNED: WeakValueDictionary[tuple[object, ...], Scalar] = WeakValueDictionary()
_INTERNING = new_reentrant_lock()  # two threads that make the same scalar must get the same object


def constant(value: Number, dtype: DataType | None = None) -> Constant:
    """The interned constant, by default of the Python number's type: bool, int64, f64, c128."""
    dtype = dtype or python_dtype(value)
    made = _intern((number_bits(value), dtype), lambda: Constant(value, dtype))
    assert isinstance(made, Constant)
    return made


def symbol(name: str, dtype: DataType = DataType.Int) -> Symbol:
    made = _intern((name, dtype), lambda: Symbol(name, dtype))
    assert isinstance(made, Symbol)
    return made


def scalar_expr(row: OpDef, args: tuple[Scalar, ...], dtype: DataType) -> Scalar:
    """`row` applied to `args`, folded when every argument is constant."""
    if row.host and all(isinstance(a, Constant) for a in args):
        return constant(
            evaluate_row(row, [a.value for a in args if isinstance(a, Constant)], dtype), dtype
        )
    return _intern((row.name, args, dtype), lambda: ScalarExpr(row, args, dtype))


def _intern(key: tuple[object, ...], make: Callable[[], Scalar]) -> Scalar:
    found = _INTERNED.get(key)
    if found is not None:
        return found
    with _INTERNING:
        return _INTERNED.setdefault(key, make())


def add(a: Scalar, b: Scalar) -> Scalar:
    if is_constant(a, 0):
        return b
    return a if is_constant(b, 0) else scalar_expr(op("add"), (a, b), DataType.Int)


def sub(a: Scalar, b: Scalar) -> Scalar:
    if a is b:
        return constant(0)
    return a if is_constant(b, 0) else scalar_expr(op("sub"), (a, b), DataType.Int)


def mul(a: Scalar, b: Scalar) -> Scalar:
    if is_constant(a, 1):
        return b
    return a if is_constant(b, 1) else scalar_expr(op("mul"), (a, b), DataType.Int)


def ceil_div(a: Scalar, b: Scalar) -> Scalar:
    return a if is_constant(b, 1) else scalar_expr(op("ceil_div"), (a, b), DataType.Int)


def is_constant(scalar: Scalar, value: int) -> bool:
    return (
        isinstance(scalar, Constant)
        and not isinstance(scalar.value, complex)
        and scalar.value == value
    )


def static_int(scalar: Scalar) -> int | None:
    """The value of an integer constant, None for anything else."""
    return (
        int(scalar.value)
        if isinstance(scalar, Constant) and isinstance(scalar.value, int)
        else None
    )


def bind(scalar: Scalar, values: Mapping[Scalar, Number]) -> Scalar:
    """`scalar` with what has a value replaced by constants, folded as far as that goes."""
    if scalar in values:
        return constant(stored(values[scalar], scalar.dtype), scalar.dtype)
    match scalar:
        case Symbol():
            return scalar
        case ScalarExpr(row, args, dtype):
            return scalar_expr(row, tuple(bind(a, values) for a in args), dtype)
        case Constant():
            return scalar


def symbols_of(scalar: Scalar) -> Iterator[Symbol]:
    """Every symbol that `scalar` depends on."""
    match scalar:
        case Symbol():
            yield scalar
        case ScalarExpr(args=args):
            for arg in args:
                yield from symbols_of(arg)
        case Constant():
            return


@cache
def _host_function(expression: str, arity: int) -> Callable[..., Number]:
    names = [f"a{k}" for k in range(arity)]
    source = f"lambda {', '.join(names)}: {expression.format(*names)}"
    function: Callable[..., Number] = eval(source, dict(HOST))
    return function


def evaluate_row(row: OpDef, args: list[Number], dtype: DataType) -> Number:
    """Python's value of an op row on numbers, as `dtype` holds it. Raises ValueError where there is
    none: an integer is divided by zero, or an infinity made one."""
    try:
        return stored(_host_function(row.host, len(args))(*args), dtype)
    except ArithmeticError as error:
        shown = ", ".join(map(format_number, args))
        raise ValueError(f"{row.name}({shown}) has no value: {error}") from error


def python_dtype(value: Number) -> DataType:
    if isinstance(value, bool):
        return DataType.Bool
    if isinstance(value, int):
        return DataType.Int
    return DataType.Double if isinstance(value, float) else DataType.ComplexDouble


def number_bits(value: Number) -> tuple[str, object]:
    """A key that tells 1 from 1.0 from True and 0.0 from -0.0; every NaN is one NaN."""
    if isinstance(value, complex):
        return "complex", (number_bits(value.real), number_bits(value.imag))
    if isinstance(value, float):
        return "float", "nan" if math.isnan(value) else struct.pack("<d", value)
    return type(value).__name__, value


def format_number(value: Number) -> str:
    """Python text that evaluates to exactly `value`, also where a subclass of Python's numbers
    (`numpy.float64`, an `IntEnum`) prints otherwise."""
    if isinstance(value, complex):
        return f"complex({format_number(value.real)}, {format_number(value.imag)})"
    if isinstance(value, float):
        text = float.__repr__(value)
        return text if math.isfinite(value) else f'float("{text}")'
    return repr(value if isinstance(value, bool) else int(value))
