"""What a region returns: views where eager has them; and how it compares with numbers."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest
import torch
import torch.nn.functional as F

from tests.executor.jitted import check

Strides = tuple[int, ...]


def strides(
    program: Callable[..., torch.Tensor], *args: torch.Tensor, device: torch.device
) -> tuple[Strides, list[Strides]]:
    """Of the result and of each gradient, after `check`."""
    jfn = check(program, *args)
    given = [arg.detach().to(device).requires_grad_(arg.requires_grad) for arg in args]
    out = jfn(*given)
    wanted = [arg for arg in given if arg.requires_grad]
    gradients = torch.autograd.grad(out, wanted, torch.randn_like(out))
    return out.stride(), [gradient.stride() for gradient in gradients]


def test_a_transposed_gradient_is_stored_row_major(device: torch.device) -> None:
    """Autograd would copy any other order into the order of the parameter."""
    x, y = torch.randn(40, 24, requires_grad=True), torch.randn(24, 40)
    _, gradients = strides(lambda x, y: torch.exp(x.t() * y), x, y, device=device)
    assert gradients == [(24, 1)]


def test_a_value_that_is_returned_too_shows_its_transpose_as_a_view(device: torch.device) -> None:
    """Writing it twice would cost more than autograd's copy wherever nobody keeps the gradient."""
    x, y = torch.randn(40, 24, requires_grad=True), torch.randn(24, 40, requires_grad=True)
    _, gradients = strides(lambda x, y: torch.relu(x.t() + y), x, y, device=device)
    assert gradients == [(1, 40), (40, 1)]


def test_a_transposed_result_is_a_view_as_in_eager(device: torch.device) -> None:
    x = torch.randn(40, 24, requires_grad=True)
    result, _ = strides(lambda x: torch.exp(x).t(), x, device=device)
    assert result == (1, 24)


def test_an_expanded_gradient_is_not_written_out(device: torch.device) -> None:
    x = torch.randn(40, 24, requires_grad=True)
    _, gradients = strides(lambda x: torch.sin(x.sum(1)), x, device=device)
    assert gradients == [(1, 0)]


COMPARED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "equal": lambda x: x == 0.7,
    "another": lambda x: x != 0.1,
    "less": lambda x: torch.where(x < 0.7, x * 2, x * 4),
    "at most": lambda x: x <= 0.7,
    "more": lambda x: x.masked_fill(x > 0.1, 3),
    "at least": lambda x: x >= 0.1,
    "a whole number": lambda x: x == 257,
    "too large": lambda x: x == 70000,
    "shrunk": lambda x: F.hardshrink(x, 0.7),
}


@pytest.mark.parametrize("options", [{}, {"fuser_evaluator": False}, {"fuser_strict": True}])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("name", COMPARED)
def test_a_number_equals_what_was_made_of_it(
    name: str, dtype: torch.dtype, options: dict[str, bool], device: torch.device
) -> None:
    x = torch.tensor([0.7, 0.1, -0.7, 256, 257, 70000, inf]).to(dtype)
    check(COMPARED[name], torch.cat([x, torch.randn(30).to(dtype)]), **options)
