"""The checks hold for every template, and for random numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.executor.jitted import check

pytestmark = pytest.mark.usefixtures("device")
Fn = Callable[..., torch.Tensor]


def normalised(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * w


def column_sums(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x * w).sum(0)


@pytest.mark.parametrize("mode", ["nan", "bounds", "eager"])
@pytest.mark.parametrize("fn", [normalised, column_sums])
def test_reductions_pass(fn: Fn, mode: str) -> None:
    x, w = torch.randn(37, 99, requires_grad=True), torch.randn(99)
    check(fn, x, w, fuser_check=mode, fuser_evaluator=False)


@pytest.mark.parametrize("mode", ["nan", "bounds", "eager"])
@pytest.mark.parametrize("length", [50, 4500])
def test_sums_by_an_index_pass(length: int, mode: str) -> None:
    weight, index = torch.randn(300, 24, requires_grad=True), torch.randint(300, (length,))
    check(
        lambda w, i: torch.nn.functional.embedding(i, w) * 2,
        weight,
        index,
        fuser_check=mode,
        fuser_evaluator=False,
    )


@pytest.mark.parametrize("mode", ["nan", "bounds", "eager"])
def test_integers_and_truth_values_pass(mode: str) -> None:
    def program(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (n * 3 + 1) // 2, (x > 0.5) & (n > 2)

    check(
        program,
        torch.rand(7, 9),
        torch.randint(0, 9, (7, 9)),
        fuser_check=mode,
        fuser_evaluator=False,
    )
