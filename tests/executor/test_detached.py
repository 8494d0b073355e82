"""What is detached is part of its region, a constant to the gradient, and torch's view where it is
seen as one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.devices import here
from tests.executor.jitted import check, jit, regions

pytestmark = pytest.mark.usefixtures("device")
KERNELS = {"fuser_evaluator": False}
Program = Callable[[torch.Tensor, torch.Tensor], object]


def straight_through(x: torch.Tensor, q: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Of a quantiser: the gradient passes it by, and two losses pull at each other."""
    return x + (q - x).detach(), ((q - x.detach()) ** 2 + (q.detach() - x).abs()).mean(1)


def hard(x: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    soft = torch.softmax(x * q, -1)
    largest = (soft == soft.amax(-1, keepdim=True)).to(soft.dtype)
    return largest - torch.detach(soft) + soft


@pytest.mark.parametrize("program", [straight_through, hard])
def test_no_gradient_passes_and_no_region_is_cut(program: Program) -> None:
    x, q = (torch.randn(5, 12, requires_grad=True) for _ in range(2))
    found = regions(check(program, x, q, **KERNELS))
    assert len(found.forward) == 1
    assert len(found.backward) == 1


def test_what_nothing_needs_has_no_gradient() -> None:
    x = torch.randn(5, 12, requires_grad=True)
    check(lambda x: x * 2 + (x * 3).detach().exp(), x)


def of_an_argument(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.detach(), x * 2


def of_a_result(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x * 2
    return y.detach(), y


@pytest.mark.parametrize("program", [of_an_argument, of_a_result])
def test_what_is_returned_is_a_view(
    program: Callable[[torch.Tensor], tuple[torch.Tensor, ...]],
) -> None:
    x = torch.randn(4, 9).to(here())
    shown, other = jit(program)(x)
    assert shown.data_ptr() == (x if program is of_an_argument else other).data_ptr()


@pytest.mark.parametrize("is_argument", [False, True])
def test_a_write_reaches_what_was_detached(is_argument: bool) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x if is_argument else x * 2
        y.detach().mul_(3)
        return y + 1, x * 2

    check(program, torch.randn(4, 9))
