"""Remainders of 16 bits by numbers, which torch rounds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.executor.jitted import check

pytestmark = pytest.mark.usefixtures("device")
Program = Callable[[torch.Tensor], torch.Tensor]
PROGRAMS: dict[str, Program] = {
    "an operator": lambda x: x % 0.1,
    "of a number": lambda x: 0.7 % x.detach(),
    "torch.remainder": lambda x: torch.remainder(x, -0.7),
    "torch.fmod": lambda x: torch.fmod(x, 0.1),
    "a method": lambda x: x.fmod(0.3),
    "in place": lambda x: (x * 2).remainder_(0.1),
    "of a whole number": lambda x: x % 257,
}


@pytest.mark.parametrize("evaluator", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_remains_of_the_number_itself(
    name: str, dtype: torch.dtype, evaluator: bool
) -> None:
    x = torch.cat([torch.tensor([0.7, -0.7, 0.1, -0.1, 0.3, 257.0]), torch.rand(30) + 0.5])
    check(PROGRAMS[name], x.to(dtype).requires_grad_(), fuser_evaluator=evaluator)
