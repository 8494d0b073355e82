"""What a region returns: gradients in the order that autograd keeps, views where eager has them."""

from __future__ import annotations

import pytest
import torch

from tests.executor.jitted import check

pytestmark = pytest.mark.usefixtures("device")


def test_a_transposed_gradient_is_stored_row_major() -> None:
    """Autograd would copy any other order into the order of the parameter."""
    x = torch.randn(40, 24, requires_grad=True)
    y = torch.randn(24, 40)
    out = check(lambda x, y: torch.exp(x.t() * y), x, y)(x, y)
    (gradient,) = torch.autograd.grad(out, x, torch.randn_like(out))
    assert gradient.is_contiguous()


def test_a_value_that_is_returned_too_shows_its_transpose_as_a_view() -> None:
    """Writing it twice would cost more than autograd's copy wherever nobody keeps the gradient."""
    x = torch.randn(40, 24, requires_grad=True)
    y = torch.randn(24, 40, requires_grad=True)
    out = check(lambda x, y: torch.relu(x.t() + y), x, y)(x, y)
    gradients = torch.autograd.grad(out, (x, y), torch.randn_like(out))
    assert [gradient.stride() for gradient in gradients] == [(1, 40), (40, 1)]


def test_a_transposed_result_is_a_view_as_in_eager() -> None:
    x = torch.randn(40, 24, requires_grad=True)
    out = check(lambda x: torch.exp(x).t(), x)(x)
    assert out.stride() == (1, 24)


def test_an_expanded_gradient_is_not_written_out() -> None:
    x = torch.randn(40, 24, requires_grad=True)
    out = check(lambda x: torch.sin(x.sum(1)), x)(x)
    (gradient,) = torch.autograd.grad(out, x, torch.randn_like(out))
    assert gradient.stride() == (1, 0)
