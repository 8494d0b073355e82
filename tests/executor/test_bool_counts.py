"""Extrema with ties share their gradient evenly, as in torch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import thunder
import torch

from tests.executor.jitted import check
from tests.pairwise import pairwise

pytestmark = pytest.mark.usefixtures("device")
KERNELS = {"fuser_evaluator": False}
EXTREMA = (torch.amax, torch.amin)


def tied(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randint(-2, 3, shape).to(dtype).requires_grad_()


@pytest.mark.parametrize("extremum", EXTREMA)
@pytest.mark.parametrize(
    ("dims", "dtype", "keepdim"),
    pairwise([0, -1, (0, 2), (0, 1, 2)], [torch.float32, torch.bfloat16], [True, False]),
)
def test_ties_share_the_gradient(
    extremum: Callable[..., torch.Tensor],
    dims: int | tuple[int, ...],
    dtype: torch.dtype,
    keepdim: bool,
) -> None:
    check(lambda x: extremum(x * 2, dims, keepdim), tied(5, 7, 131, dtype=dtype), **KERNELS)


@pytest.mark.parametrize("extremum", EXTREMA)
def test_more_ties_than_a_byte_counts(extremum: Callable[..., torch.Tensor]) -> None:
    check(lambda x: extremum(x, -1) * 3, tied(3, 4099), **KERNELS)


def test_counts_and_views_of_them_are_integers() -> None:
    jfn = check(lambda x: torch.amax(x, 0) * 2, tied(9, 33), **KERNELS)
    backward = str(thunder.last_backward_traces(jfn)[-1])
    assert "i64[1, 33]" in backward
    assert "b8[9, 33]" in backward
    assert "b8[33]" not in backward
    assert "b8[1, 33]" not in backward
