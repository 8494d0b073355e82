"""log_softmax: torch's values far from zero and beside infinities, one kernel each way."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from tests.executor.jitted import check, jit, regions, saved
from tests.executor.judging import runs
from tests.executor.test_logsumexp import INFINITE
from tests.pairwise import pairwise

KERNELS = {"fuser_evaluator": False}
ON_EVERY_DEVICE = pytest.mark.usefixtures("device")


@pytest.mark.parametrize(
    ("dim", "offset", "dtype"),
    pairwise([0, 1, -1], [0.0, 1e4, -1e6], [torch.float32, torch.bfloat16, torch.float16]),
)
def test_the_error_is_like_eagers(
    dim: int, offset: float, dtype: torch.dtype, device: torch.device
) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        wide = x if x.dtype == torch.float64 else x.float()
        return F.log_softmax(wide + offset, dim)

    x = torch.randn(5, 7, 131).mul(16).round().div(16).to(dtype)  # the offset rounds nothing
    cotangent = torch.randn(x.shape)
    jfn = jit(program, **KERNELS)
    exact = runs(program, [x.double()], cotangent)
    ours, eager = runs(jfn, [x], cotangent, device), runs(program, [x], cotangent)
    for value, found, theirs, eps in zip(exact, ours, eager, (torch.float32, dtype), strict=True):
        rounding = torch.finfo(eps).eps * value.abs().max()
        assert (found - value).abs().max() <= 2 * (theirs - value).abs().max() + 8 * rounding


@ON_EVERY_DEVICE
@pytest.mark.parametrize("extent", [1, 2, 8191])
def test_rows_of_any_length(extent: int) -> None:
    x = torch.randn(3, extent, requires_grad=True)
    check(lambda x: F.log_softmax(x, -1) * 2, x, **KERNELS)


@ON_EVERY_DEVICE
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_type_that_is_asked_for_is_the_one_it_is_computed_in(dtype: torch.dtype) -> None:
    for given in (torch.bfloat16, torch.float32):
        x = torch.randn(5, 37, dtype=given, requires_grad=True)
        check(lambda x: F.log_softmax(x, -1, dtype=dtype) * 2, x, **KERNELS)
    whole = torch.arange(35).reshape(5, 7)
    check(lambda x: F.log_softmax(x, -1, dtype=dtype) * 2, whole, **KERNELS)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("loss", ["none", "nll_loss", "weighted", "probabilities", "planes"])
def test_infinities_and_nan_are_torchs(dim: int, loss: str, device: torch.device) -> None:
    x = torch.tensor([*INFINITE, [math.nan, 1.0, 2.0]])
    x = x if dim == 1 else x.t().contiguous()
    rows, classes = x.shape
    t, p = torch.randint(0, classes, (rows,)), torch.rand(rows, classes)
    w = torch.rand(classes)

    def program(x: torch.Tensor) -> torch.Tensor:
        where = x.device
        if loss == "nll_loss":
            return F.nll_loss(F.log_softmax(x * 2, 1), t.to(where), reduction="none")
        if loss == "weighted":
            return F.cross_entropy(x * 2, t.to(where), w.to(where), reduction="none")
        if loss == "probabilities":
            return F.cross_entropy(x * 2, p.to(where), reduction="none")
        if loss == "planes":
            return F.cross_entropy(x[:, :, None] * 2, t[:, None].to(where), reduction="none")
        return F.log_softmax(x * 2, dim)

    cotangent = torch.randn(program(x).shape)
    ours = runs(jit(program, **KERNELS), [x], cotangent, device)
    expected = runs(program, [x], cotangent)
    torch.testing.assert_close(ours, expected, equal_nan=True, rtol=1e-5, atol=1e-5)


@ON_EVERY_DEVICE
def test_the_backward_keeps_the_result_or_two_numbers_per_row() -> None:
    x = torch.randn(43, 131, requires_grad=True)
    jfn = check(lambda x: F.log_softmax(x, -1) * 2, x, **KERNELS)
    assert sorted(saved(jfn).values()) == [43 * 4, 43 * 4, 43 * 131 * 4]
    assert len(regions(jfn).forward) == len(regions(jfn).backward) == 1
    y = torch.randn(43, 17)
    jfn = check(lambda y, w: F.log_softmax(y @ w, -1), y, torch.randn(17, 131, requires_grad=True))
    assert sorted(saved(jfn).values()) == [43 * 17 * 4, 43 * 131 * 4]


@ON_EVERY_DEVICE
def test_what_has_no_element_is_left_to_thunder() -> None:
    check(lambda x: F.log_softmax(x, 0) + 1, torch.randn(3, 0, requires_grad=True))


@pytest.mark.usefixtures("widest_host")
def test_scores_that_are_masked_by_the_least_number_have_an_entropy() -> None:
    """A piece of a long row that has no others sums to minus infinity, which counts for nothing."""
    x = torch.randn(2, 1 << 17)
    x[:, : 1 << 16] = torch.finfo(torch.float32).min

    def entropy(x: torch.Tensor) -> torch.Tensor:
        return torch.logsumexp(x, -1) - (torch.softmax(x, -1) * x).sum(-1)

    torch.testing.assert_close(jit(entropy)(x), entropy(x))
