"""The CUDA C++ spelling of element types.

All are single names, so that `T(0)` is an expression for each of them; `tf::` names come from the
device prelude.
"""

from __future__ import annotations

from thunder_fuser.dtypes import DataType

CUDA_TYPES: dict[DataType, str] = {
    DataType.Bool: "bool",
    DataType.Int8: "tf::i8",
    DataType.UInt8: "tf::u8",
    DataType.Int16: "short",
    DataType.Int32: "int",
    DataType.Int: "tf::i64",
    DataType.Float8E4M3: "tf::f8e4m3",
    DataType.Float8E5M2: "tf::f8e5m2",
    DataType.Half: "tf::f16",
    DataType.BFloat16: "tf::bf16",
    DataType.Float: "float",
    DataType.Double: "double",
    DataType.ComplexFloat: "tf::complex<float>",
    DataType.ComplexDouble: "tf::complex<double>",
}
"""The type of an element in memory."""

COMPUTE_TYPES: dict[DataType, str] = {d: CUDA_TYPES[d.compute_type] for d in DataType}
"""The type of a variable that holds such an element."""

INT_LIMIT = 2**31  # indices at or beyond it are 64 bits wide


def index_type(largest: int) -> str:
    """The type of indices of which `largest` is the largest."""
    return "long long" if largest >= INT_LIMIT else "int"
