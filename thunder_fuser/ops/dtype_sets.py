"""The operand types that families of ops are defined for, as torch accepts them."""

from __future__ import annotations

from thunder_fuser.dtypes import DataType

STORED = frozenset(DataType)  # what views, copies and casts take
ALL = frozenset(d for d in DataType if not d.is_float8)  # what ops compute with
COMPLEX = frozenset(d for d in DataType if d.is_complex)
REAL = ALL - COMPLEX  # bool, integers and floats: what can be ordered
FLOATS = frozenset(d for d in DataType if d.is_floating)
INTEGERS = frozenset(d for d in DataType if d.is_integral)
INDICES = frozenset({DataType.Int, DataType.Int32})
BITS = INTEGERS | {DataType.Bool}
NUMBERS = ALL - {DataType.Bool}
REAL_NUMBERS = REAL - {DataType.Bool}
INEXACT = FLOATS | COMPLEX
SINGLE_OR_DOUBLE = frozenset({DataType.Float, DataType.Double})
