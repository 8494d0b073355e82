"""Result types as functions of operand types, following torch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from thunder_fuser.dtypes import DataType, complex_of, default_of_category, promote, real_of
from thunder_fuser.ops.definition import DtypeRule, Operand, OperandRule


def promoted(operands: Sequence[Operand]) -> DataType:
    """Torch's promotion: a number only matters when its category is above every tensor's."""
    tensors = [o.dtype for o in operands if not o.is_scalar]
    scalars = [o.dtype for o in operands if o.is_scalar]
    if not tensors:
        return reduce(promote, scalars)
    result = reduce(promote, tensors)
    above = [s for s in scalars if s.category > result.category]
    if not above:
        return result
    number = default_of_category(max(s.category for s in above))
    return promote(result, number) if number.is_complex and result.is_floating else number


def same(operands: Sequence[Operand]) -> DataType:
    """The type of the first operand."""
    return operands[0].dtype


def floating(operands: Sequence[Operand]) -> DataType:
    """As `promoted`, with integers and bool becoming f32, and f64 where all are numbers, as in
    Python."""
    dtype = promoted(operands)
    if dtype.category >= 2:
        return dtype
    return DataType.Double if all(o.is_scalar for o in operands) else DataType.Float


def boolean(operands: Sequence[Operand]) -> DataType:
    return DataType.Bool


def real(operands: Sequence[Operand]) -> DataType:
    """The type of the parts of a complex operand."""
    return real_of(operands[0].dtype)


def tail_promoted(operands: Sequence[Operand]) -> DataType:
    """Promotion of every operand but the first (the condition of `where`)."""
    return promoted(operands[1:])


def integer_sum(operands: Sequence[Operand]) -> DataType:
    """Sums and products of integers and bool are int64, as in torch."""
    dtype = operands[0].dtype
    return DataType.Int if dtype.category < 2 else dtype


def accumulator(operands: Sequence[Operand]) -> DataType:
    """The type in which elements of the first operand are added up."""
    return operands[0].dtype.compute_type


def complex_parts(operands: Sequence[Operand]) -> DataType:
    """The complex type whose parts are the promoted operands."""
    return complex_of(floating(operands))


def fixed(dtype: DataType) -> DtypeRule:
    """A rule that ignores the operands."""

    def rule(operands: Sequence[Operand]) -> DataType:
        return dtype

    rule.__name__ = str(dtype)
    return rule


def each(rule: DtypeRule) -> OperandRule:
    """Every operand is converted to the type that `rule` gives for all of them."""

    def convert(operands: Sequence[Operand]) -> tuple[DataType, ...]:
        return (rule(operands),) * len(operands)

    return convert


def condition_then(rule: DtypeRule) -> OperandRule:
    """The first operand becomes bool, the others the type that `rule` gives for all of them."""

    def convert(operands: Sequence[Operand]) -> tuple[DataType, ...]:
        return (DataType.Bool, *(rule(operands),) * (len(operands) - 1))

    return convert
