"""Tensors made of numbers are part of their regions."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.devices import here
from tests.executor.jitted import check, jit, regions
from thunder_fuser import explain

pytestmark = pytest.mark.usefixtures("device")


@pytest.mark.parametrize("sizes", [(5,), (5, 7), (7, 5), (1, 3)])
@pytest.mark.parametrize("dtype", [None, torch.float64, torch.int32, torch.bool])
def test_ones_on_a_diagonal(sizes: tuple[int, ...], dtype: torch.dtype | None) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        eye = torch.eye(*sizes, dtype=dtype, device=x.device)
        return eye, eye * 2 + x

    check(program, torch.randn(3, 1, 1))


def test_a_contrastive_loss_is_one_region() -> None:
    """SigLIP's: each row's and column's own is the only right one."""

    def program(x: torch.Tensor) -> torch.Tensor:
        sign = 2 * torch.eye(x.shape[0], device=x.device, dtype=x.dtype) - 1
        return -F.logsigmoid(sign * (x * 1.5 - 0.5)).sum(-1)

    found = regions(check(program, torch.randn(9, 9, requires_grad=True), fuser_evaluator=False))
    assert len(found.forward) == len(found.backward) == 1


@pytest.mark.parametrize("dims", [(0, 1), (1,)])
def test_zeros_for_what_nobody_read_are_in_the_region(dims: tuple[int, ...]) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x - torch.var_mean(x, dims, keepdim=True)[1]

    jfn = check(program, torch.randn(9, 7, requires_grad=True), fuser_evaluator=False)
    assert "zeros" not in explain(jfn)


def test_what_is_not_taken_is_told() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x + torch.eye(3, device=x.device, requires_grad=True)

    with pytest.raises(NotImplementedError, match=r"has no torch\.eye with requires_grad"):
        jit(program)(torch.randn(3, 3).to(here()))
