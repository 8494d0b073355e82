"""logsumexp: one kernel each way, and no gradient through the maximum."""

from __future__ import annotations

import math

import pytest
import torch

from tests.executor.jitted import check, jit, regions, saved
from tests.executor.judging import runs
from tests.pairwise import HALVES, pairwise

KERNELS = {"fuser_evaluator": False}
ON_EVERY_DEVICE = pytest.mark.usefixtures("device")
INFINITE = [[1.0, 2.0, 3.0], [-math.inf] * 3, [math.inf, 1.0, 2.0], [-math.inf, 1.0, 2.0]]


@pytest.mark.parametrize(
    ("dim", "dtype", "keepdim"),
    pairwise([0, -1, (0, 2), (0, 1, 2)], [torch.float32, *HALVES], [True, False]),
)
def test_the_error_is_like_eagers(
    dim: int | tuple[int, ...], keepdim: bool, dtype: torch.dtype, device: torch.device
) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.logsumexp(x * 3, dim, keepdim)

    x = torch.randn(5, 7, 131, dtype=dtype)
    cotangent = torch.randn(program(x).shape, dtype=dtype)
    jfn = jit(program, **KERNELS)
    exact = runs(program, [x.double()], cotangent)
    ours, eager = runs(jfn, [x], cotangent, device), runs(program, [x], cotangent)
    for value, found, theirs in zip(exact, ours, eager, strict=True):
        rounding = torch.finfo(dtype).eps * value.abs().max()
        assert (found - value).abs().max() <= 2 * (theirs - value).abs().max() + 8 * rounding


@ON_EVERY_DEVICE
@pytest.mark.parametrize("extent", [1, 2, 8191])
def test_rows_of_any_length(extent: int) -> None:
    x = torch.randn(3, extent, requires_grad=True)
    check(lambda x: torch.logsumexp(x, -1) * 2, x, **KERNELS)


@pytest.mark.parametrize("dim", [0, 1])
def test_infinities_and_nan_are_torchs(dim: int, device: torch.device) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.logsumexp(x * 2, dim)

    x = torch.tensor([*INFINITE, [math.nan, 1.0, 2.0]])
    cotangent = torch.randn(program(x).shape)
    ours = runs(jit(program, **KERNELS), [x], cotangent, device)
    expected = runs(program, [x], cotangent)
    torch.testing.assert_close(ours, expected, equal_nan=True, rtol=1e-5, atol=1e-5)


@ON_EVERY_DEVICE
def test_the_backward_keeps_a_number_per_row_and_looks_for_no_maximum() -> None:
    x = torch.randn(43, 131, requires_grad=True)
    jfn = check(lambda x: torch.logsumexp(x, -1), x, **KERNELS)
    assert sorted(saved(jfn).values()) == [43 * 4, 43 * 131 * 4]
    (backward,) = regions(jfn).backward
    assert not {"amax", "eq", "sum"} & set(backward)


@ON_EVERY_DEVICE
def test_what_has_no_element_is_left_to_thunder() -> None:
    check(lambda x: torch.logsumexp(x, 0) + 1, torch.randn(3, 0, requires_grad=True))
