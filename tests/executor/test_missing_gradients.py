"""Gradients that Thunder does not have are torch's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.executor.jitted import check

pytestmark = pytest.mark.usefixtures("device")
KERNELS = {"fuser_evaluator": False}
PLACES = torch.tensor([2, 0, 5, 2, 6, 2, 0])  # some of seven rows, several times
PROGRAMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "argmin": lambda x: x * x.argmin(1, keepdim=True),
    "ceil": lambda x: x * torch.ceil(x),
    "flip": lambda x: torch.flip(x * x, (0, 1)) * 2,
    "floor": lambda x: x * x.floor(),
    "index_add": lambda x: torch.index_add(x, 0, PLACES.to(x.device), x.sin()),
    "index_add of columns": lambda x: x.t().index_add(1, PLACES.to(x.device), x.t() * x.t()),
    "index_put": lambda x: torch.index_put(x, (PLACES[:3].to(x.device),), x[:3].cos()),
    "index_put of sums": lambda x: x.index_put((PLACES.to(x.device),), x * x, accumulate=True),
    "index_put of a row": lambda x: x.index_put(
        (PLACES.to(x.device),), x[0] * x[1], accumulate=True
    ),
    "isfinite": lambda x: torch.where(torch.isfinite(x), x * x, 0.0),
    "lerp": lambda x: torch.lerp(x, x * x, 0.3),
    "lerp alone": lambda x: torch.lerp(x, x, 0.3),
    "lerp by a tensor": lambda x: torch.lerp(x, x.sin(), x.cos()),
    "minimum": lambda x: torch.minimum(x * 0.3, x * x),
    "minimum of equals": lambda x: torch.minimum(x * 2, x + x),
    "remainder": lambda x: torch.remainder(x, 0.3) * 2,
    "remainder by a tensor": lambda x: torch.remainder(x, x * x + 0.5),
    "remainder by a tenth": lambda x: torch.remainder(torch.ones_like(x), x * 0 + 0.1),
    "round": lambda x: x * torch.round(x * 3),
    "signbit": lambda x: torch.where(torch.signbit(x), x, x * x),
    "straight through": lambda x: x * 2 + (torch.floor(x * 3) - x),
    "trunc": lambda x: x * torch.trunc(x * 3),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_are_torchs(program: str) -> None:
    check(PROGRAMS[program], torch.randn(7, 33, requires_grad=True), **KERNELS)


def test_the_smaller_of_two_of_several_shapes() -> None:
    x, y = torch.randn(7, 33, requires_grad=True), torch.randn(33, requires_grad=True)
    check(lambda x, y: torch.min(x, y) * torch.minimum(y, x).exp(), x, y, **KERNELS)
