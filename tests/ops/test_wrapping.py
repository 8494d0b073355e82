"""Sums and products of integers wrap as torch's do, whatever C++ says of signed ones."""

from __future__ import annotations

import pytest
import torch

from tests.programs import STRICT, check, cuda_kernels, fusion, like, ptx_of
from thunder_fuser.codegen.emit import emit
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion

DTYPES = torch.int32, torch.int64


def overflowing(x: torch.Tensor) -> Fusion:
    """What a compiler would know beforehand, if sums could not overflow."""
    (a,) = like(x)
    ends = call("gt", call("add", a, sc.constant(1)), a)
    squares = call("lt", call("mul", a, a), sc.constant(0))
    return fusion([a], ends, squares, call("neg", a), call("sub_alpha", a, a, sc.constant(7)))


def drawn(dtype: torch.dtype) -> torch.Tensor:
    limits = torch.iinfo(dtype)
    x = torch.randint(limits.min, limits.max, (1003,)).to(dtype)
    x[:2] = torch.tensor([limits.min, limits.max])
    return x


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dtype", DTYPES)
def test_overflows_have_torchs_bits(dtype: torch.dtype) -> None:
    x = drawn(dtype)
    check(overflowing(x), x, options=STRICT)


@pytest.mark.usefixtures("device")
def test_a_hash_of_bytes_is_in_torchs_bucket() -> None:
    x = torch.arange(256, dtype=torch.uint8)
    (a,) = like(x)
    large = call("mul", call("cast", a, dtype=DataType.Int32), sc.constant(73_856_093))
    hashed = call("remainder", call("cast", large, dtype=DataType.Int32), sc.constant(1000))
    check(fusion([a], hashed), x, options=STRICT)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_gpu_compiler_knows_no_comparison_beforehand(dtype: torch.dtype) -> None:
    _, (kernel,) = cuda_kernels(overflowing(x := drawn(dtype)), x)
    assert (
        ptx_of(emit(kernel).text).count("setp.") > 2
    )  # one or two tell which threads have elements
