"""A relu of what is no number, as torch has it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.devices import here
from tests.executor.jitted import jit

pytestmark = pytest.mark.usefixtures("device")
VALUES = [float("nan"), -1.0, 0.0, -0.0, 2.0, float("inf"), -float("inf")]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize(
    "program", [torch.relu, lambda x: F.relu(x * 2) * 3, lambda x: torch.cos((x + 1).relu())]
)
def test_a_relu_keeps_what_is_no_number(
    program: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype
) -> None:
    x = torch.tensor(VALUES, dtype=dtype)
    expected, gradient = run(program, x)
    found, ours = run(jit(program, fuser_single_op=True), x.to(here()))
    inferred = jit(program, fuser_single_op=True)(x.to(here()))
    for got, want in ((found, expected), (inferred, expected), (ours, gradient)):
        torch.testing.assert_close(got.cpu(), want, equal_nan=True)


def run(
    program: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The result, and the gradient of its sum."""
    x = x.clone().requires_grad_()
    result = program(x)
    result.backward(torch.ones_like(result))
    assert x.grad is not None
    return result.detach(), x.grad
