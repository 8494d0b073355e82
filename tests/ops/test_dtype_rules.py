"""Result types against torch's promotion."""

from __future__ import annotations

import pytest
import torch

from thunder_fuser.dtypes import DataType
from thunder_fuser.ops.definition import Operand
from thunder_fuser.ops.dtype_rules import condition_then, each, floating, promoted, tail_promoted
from thunder_fuser.ops.dtype_sets import ALL
from thunder_fuser.runtime.dtypes import DTYPES_OF_TORCH, TORCH_DTYPES

DTYPES = tuple(d for d in DataType if d in ALL)
NUMBERS = {DataType.Bool: True, DataType.Int: 2, DataType.Double: 2.5, DataType.ComplexDouble: 1j}


def tensor(dtype: DataType) -> Operand:
    return Operand(dtype, is_scalar=False)


@pytest.mark.parametrize("a", DTYPES, ids=str)
def test_two_tensors_promote_as_in_torch(a: DataType) -> None:
    for b in DTYPES:
        wanted = torch.promote_types(TORCH_DTYPES[a], TORCH_DTYPES[b])
        assert TORCH_DTYPES[promoted([tensor(a), tensor(b)])] is wanted, (a, b)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_number_only_matters_in_a_higher_category(dtype: DataType) -> None:
    for number_dtype, number in NUMBERS.items():
        wanted = torch.result_type(torch.ones(2, dtype=TORCH_DTYPES[dtype]), number)
        if wanted not in DTYPES_OF_TORCH:  # f16 beside a complex number: torch's complex32
            continue
        found = promoted([tensor(dtype), Operand(number_dtype, is_scalar=True)])
        assert TORCH_DTYPES[found] is wanted, (dtype, number)


def test_integers_become_f32_where_the_op_is_real_analysis() -> None:
    for dtype in DTYPES:
        wanted = torch.exp(torch.ones(2, dtype=TORCH_DTYPES[dtype])).dtype
        assert TORCH_DTYPES[floating([tensor(dtype)])] is wanted


def test_numbers_alone_become_f64_there_as_in_python() -> None:
    for dtype, number in NUMBERS.items():
        wanted = DataType.ComplexDouble if isinstance(number, complex) else DataType.Double
        assert floating([Operand(dtype, is_scalar=True)]) is wanted
    assert floating([Operand(DataType.Float, is_scalar=True)]) is DataType.Float


def test_operand_rules_say_what_each_operand_becomes() -> None:
    half, integer, real = DataType.Half, DataType.Int, DataType.Double
    number = Operand(real, is_scalar=True)
    assert each(promoted)([tensor(half), number]) == (half, half)
    assert each(promoted)([tensor(integer), number]) == (DataType.Float, DataType.Float)
    where = condition_then(tail_promoted)([tensor(integer), tensor(half), tensor(DataType.Float)])
    assert where == (DataType.Bool, DataType.Float, DataType.Float)
