"""Rows of running sums: torch's types and values, and the values of the combine step."""

from __future__ import annotations

import pytest
import torch

from tests.programs import like
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ops import OPS
from thunder_fuser.ops.definition import Operand
from thunder_fuser.runtime.dtypes import TORCH_DTYPES
from thunder_fuser.runtime.evaluate import row_function

CUMSUM = OPS["cumsum"]


@pytest.mark.parametrize("dtype", [d for d in DataType if d in CUMSUM.dtypes], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_the_reference_is_torchs(dtype: DataType, reverse: bool) -> None:
    x = torch.randint(0, 3, (5, 9)).to(TORCH_DTYPES[dtype])
    (wanted_type,) = CUMSUM.operand_dtypes([Operand(dtype, False)])
    found = row_function(CUMSUM)(x.to(TORCH_DTYPES[wanted_type]), dim=1, reverse=reverse)
    wanted = x.flip(1).cumsum(1).flip(1) if reverse else x.cumsum(1)
    assert found.dtype == wanted.dtype == TORCH_DTYPES[CUMSUM.dtype([Operand(dtype, False)])]
    assert torch.equal(found, wanted)


def test_complex_numbers_are_refused() -> None:
    (z,) = like(torch.empty(3, dtype=torch.complex64))
    with pytest.raises(TypeError, match="operand 0 has dtype c64"):
        call("cumsum", z, dim=0, reverse=False)
