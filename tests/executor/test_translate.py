"""What a region returns: views where eager has them."""

from __future__ import annotations

import pytest
import torch

from tests.executor.jitted import check

pytestmark = pytest.mark.usefixtures("device")


def test_a_transposed_result_is_a_view_as_in_eager() -> None:
    x = torch.randn(40, 24, requires_grad=True)
    out = check(lambda x: torch.exp(x).t(), x)(x)
    assert out.stride() == (1, 24)


def test_an_expanded_gradient_is_not_written_out() -> None:
    x = torch.randn(40, 24, requires_grad=True)
    out = check(lambda x: torch.sin(x.sum(1)), x)(x)
    (gradient,) = torch.autograd.grad(out, x, torch.randn_like(out))
    assert gradient.stride() == (1, 0)
