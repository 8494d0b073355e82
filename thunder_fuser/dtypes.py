"""The element types, their sizes, and the rules by which torch combines them."""

from __future__ import annotations

from enum import Enum


class DataType(Enum):
    """An element type. `value` is the name printed in IR text and used by the generated code."""

    Bool = "bool"
    Int8 = "i8"
    UInt8 = "u8"
    Int16 = "i16"
    Int32 = "i32"
    Int = "i64"
    Float8E4M3 = "f8e4m3"
    Float8E5M2 = "f8e5m2"
    Half = "f16"
    BFloat16 = "bf16"
    Float = "f32"
    Double = "f64"
    ComplexFloat = "c64"
    ComplexDouble = "c128"

    def __str__(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return f"DataType.{self.name}"

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return _ITEMSIZE[self]

    @property
    def is_complex(self) -> bool:
        return self in (DataType.ComplexFloat, DataType.ComplexDouble)

    @property
    def is_float8(self) -> bool:
        """True for the 8-bit floats, which are a kind of their own: values are stored in them,
        moved and converted, and no op computes with them. A conversion to one is a choice of the
        program, never a rounding that a kernel may leave out."""
        return self in (DataType.Float8E4M3, DataType.Float8E5M2)

    @property
    def is_floating(self) -> bool:
        """True for the floats that ops compute with."""
        return self in (DataType.Half, DataType.BFloat16, DataType.Float, DataType.Double)

    @property
    def is_integral(self) -> bool:
        """True for the integers; bool is a kind of its own, as in torch."""
        is_inexact = self.is_complex or self.is_floating or self.is_float8
        return not (is_inexact or self is DataType.Bool)

    @property
    def is_reduced_precision(self) -> bool:
        """True for the 16-bit floats, which are widened to f32 for arithmetic."""
        return self in (DataType.Half, DataType.BFloat16)

    @property
    def category(self) -> int:
        """torch's promotion category: bool 0, integer 1, float 2, complex 3."""
        if self.is_complex:
            return 3
        return 2 if self.is_floating or self.is_float8 else 1 if self.is_integral else 0

    @property
    def compute_type(self) -> DataType:
        """The type in which a kernel does arithmetic on this type."""
        return DataType.Float if self.is_reduced_precision or self.is_float8 else self


# Of Python's numbers.
PYTHON_DTYPES: dict[type, DataType] = {
    bool: DataType.Bool,
    int: DataType.Int,
    float: DataType.Double,
    complex: DataType.ComplexDouble,
}

_ITEMSIZE = {
    DataType.Bool: 1,
    DataType.Int8: 1,
    DataType.UInt8: 1,
    DataType.Int16: 2,
    DataType.Int32: 4,
    DataType.Int: 8,
    DataType.Float8E4M3: 1,
    DataType.Float8E5M2: 1,
    DataType.Half: 2,
    DataType.BFloat16: 2,
    DataType.Float: 4,
    DataType.Double: 8,
    DataType.ComplexFloat: 8,
    DataType.ComplexDouble: 16,
}

# Widening order inside a category. Half and BFloat16 meet in Float; UInt8 and Int8 meet in Int16.
_ORDER = (
    DataType.Bool,
    DataType.UInt8,
    DataType.Int8,
    DataType.Int16,
    DataType.Int32,
    DataType.Int,
    DataType.Half,
    DataType.BFloat16,
    DataType.Float,
    DataType.Double,
    DataType.ComplexFloat,
    DataType.ComplexDouble,
)


def promote(a: DataType, b: DataType) -> DataType:
    """The type torch gives to an operation on two tensors of types `a` and `b`, of which neither is
    a float of 8 bits."""
    pair = {a, b}
    if pair == {DataType.Half, DataType.BFloat16}:
        return DataType.Float
    if pair == {DataType.UInt8, DataType.Int8}:
        return DataType.Int16
    if DataType.ComplexFloat in pair and DataType.Double in pair:
        return DataType.ComplexDouble
    return max(a, b, key=_ORDER.index)


def default_of_category(category: int) -> DataType:
    """The type of a Python number of that category: bool, int64, float32, complex64."""
    return (DataType.Bool, DataType.Int, DataType.Float, DataType.ComplexFloat)[category]


def complex_of(real: DataType) -> DataType:
    """The complex type whose parts are `real`."""
    return DataType.ComplexDouble if real is DataType.Double else DataType.ComplexFloat


def real_of(dtype: DataType) -> DataType:
    """The type of the parts of a complex type; any other type is its own real type."""
    if dtype is DataType.ComplexDouble:
        return DataType.Double
    return DataType.Float if dtype is DataType.ComplexFloat else dtype
