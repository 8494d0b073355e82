"""Inputs with one gradient get a tensor each, written by the kernel that makes it."""

from __future__ import annotations

import pytest
import thunder
import torch

from tests.executor.jitted import check, regions
from tests.executor.jitted import jit as jitted

pytestmark = pytest.mark.usefixtures("device")


def added_norm(x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    total = x + residual
    return total, total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + 1e-5)


def operands(count: int = 2) -> list[torch.Tensor]:
    return [torch.randn(5, 64, requires_grad=True) for _ in range(count)]


def test_a_shared_gradient_is_written_once_for_each_input() -> None:
    jfn = check(added_norm, *operands())
    (backward,) = regions(jfn).backward
    assert backward.count("clone") == 1
    inputs = operands()
    outs = jfn(*inputs)
    torch.autograd.backward(outs, [torch.randn_like(out) for out in outs])
    first, second = (x.grad for x in inputs)
    assert first is not None
    assert second is not None
    assert torch.equal(first, second)
    first.zero_()
    assert second.abs().sum() > 0


def test_three_inputs_get_three_tensors() -> None:
    jfn = check(lambda x, y, z: torch.sin(x + y + z), *operands(3))
    (backward,) = regions(jfn).backward
    assert backward.count("clone") == 2


def test_a_gradient_that_autograd_hands_in_stays_shared() -> None:
    jfn = jitted(lambda x, y: (x + y) + torch.zeros(5, 64, device=x.device))
    jfn(*operands())
    assert "clone" not in str(thunder.last_backward_traces(jfn)[-1])


@pytest.mark.parametrize("needs_gradient", [False, True])
def test_results_of_the_forward_that_are_one_tensor_stay_one(
    needs_gradient: bool, device: torch.device
) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return y.add_(1), y, torch.exp(y)

    x = torch.randn(5, 64, requires_grad=needs_gradient).to(device)
    first, second, _ = jitted(program)(x)
    assert first.data_ptr() == second.data_ptr()


def test_a_written_argument_is_returned_under_each_name(device: torch.device) -> None:
    x = torch.randn(5, 64).to(device)
    results = jitted(lambda x: (x.add_(1), x))(x)
    assert {t.data_ptr() for t in results} == {x.data_ptr()}
