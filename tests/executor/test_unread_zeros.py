"""torch fills no zeros for results that have no gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import thunder
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.executor.jitted import check
from thunder_fuser import fuser

Results = tuple[torch.Tensor, ...]


class Sizes(TorchDispatchMode):
    """Elements of all tensors that an op of torch made of no others."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[int] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> torch.Tensor:
        made: torch.Tensor = func(*args, **kwargs or {})
        if "zeros" in str(func):
            self.made.append(made.numel())
        return made


def in_8_bits(x: torch.Tensor) -> Results:
    """Rows by their own scale."""
    scale = x.abs().amax(1, keepdim=True) / 127
    return torch.round(x / scale).to(torch.int8), scale


def ordered(x: torch.Tensor) -> Results:
    return x.argmax(1), x * 2, x > 0


@pytest.mark.parametrize("function", [in_8_bits, ordered])
def test_none_are_made(function: Callable[[torch.Tensor], Results]) -> None:
    x = torch.randn(7, 33, requires_grad=True)
    (result,) = (y for y in thunder.jit(function, executors=[fuser])(x) if y.requires_grad)
    with Sizes() as sizes:
        torch.autograd.grad(result, x, torch.ones_like(result))
    assert not sizes.made


def test_a_result_that_nobody_read_has_some() -> None:
    x = torch.randn(7, 33, requires_grad=True)
    _, result = thunder.jit(lambda x: (x.sin(), x.cos()), executors=[fuser])(x)
    with Sizes() as sizes:
        torch.autograd.grad(result, x, torch.ones_like(result))
    assert sizes.made == [7 * 33]


def test_gradients_are_torchs() -> None:
    check(lambda x: in_8_bits(x)[1], torch.randn(7, 33, requires_grad=True))
