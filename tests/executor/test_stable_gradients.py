"""Gradients of functions whose parts overflow are torch's, and finite, far from zero and at it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.executor.jitted import check
from thunder_fuser.executor.stable_gradients import GRADIENTS

pytestmark = pytest.mark.usefixtures("device")
KERNELS = {"fuser_evaluator": False}
PLACES = (-1e20, -1000.0, -100.0, -20.0, -1.0, -0.0, 0.0, 0.5, 20.0, 100.0, 1000.0, 1e20)
PROGRAMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "celu": lambda x: F.celu(x * 1),
    "celu of another slope": lambda x: F.celu(x * 1, alpha=0.3),
    "elu": lambda x: F.elu(x * 1),
    "elu of another slope": lambda x: F.elu(x * 1, alpha=1.7),
    "elu in place": lambda x: F.elu(x * 1, inplace=True) * 2,
    "gate": lambda x: x * torch.sigmoid(x),
    "gated halves": lambda x: F.glu(torch.cat([x * 1, x.flip(0)]), 0),
    "mish": lambda x: F.mish(x * 1),
    "selu": lambda x: F.selu(x * 1),
    "selu in place": lambda x: F.selu(x * 1, inplace=True) * 2,
    "mish in place": lambda x: F.mish(x * 1, inplace=True) * 2,
    "celu in place": lambda x: F.celu(x * 1, alpha=0.7, inplace=True) * 2,
    "sigmoid": lambda x: (x * 1).sigmoid(),
}


ZEROS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "angle": lambda x: torch.atan2(x, x * 2) * x.cos(),
    "product": lambda x: x.prod(1, keepdim=True) * x,
    "product of columns": lambda x: torch.prod(x * 2, 0),
    "product of all": lambda x: torch.prod(x[2:]) * 2,
}


@pytest.mark.parametrize("program", ZEROS)
def test_where_they_are_divided_by_zero(program: str) -> None:
    x = torch.rand(5, 33) + 0.5
    x[1], x[2, 3], x[3, 1:3] = 0, 0, 0
    check(ZEROS[program], x.requires_grad_(), **KERNELS)


@pytest.mark.parametrize("program", PROGRAMS)
def test_far_from_zero(program: str) -> None:
    x = torch.tensor([p for p in PLACES for _ in range(5)])
    if program == "gated halves":
        x = x.clamp(-1000, 1000)  # torch's own is NaN beyond
    check(PROGRAMS[program], x.requires_grad_(), **KERNELS)
    assert x.grad is None


@pytest.mark.parametrize("program", PROGRAMS)
def test_near_zero(program: str) -> None:
    check(PROGRAMS[program], torch.randn(7, 33, requires_grad=True), **KERNELS)


def test_each_of_them_is_torchs() -> None:
    names = {"sigmoid" if "gate" in name else name.split(" ")[0] for name in PROGRAMS}
    assert names == {symbol.rsplit(".", 1)[-1] for symbol in GRADIENTS}
