"""The gradient of what equals a limit, as torch has it."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan

import pytest
import torch

from tests.executor.jitted import check, jit

pytestmark = pytest.mark.usefixtures("device")
KERNELS = {"fuser_evaluator": False}
VALUES = (-inf, -2.0, 0.0, 0.25, 0.5, 0.7, 1.0, 3.0, inf)
PROGRAMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "clamp": lambda x: torch.clamp(x * 1, 0, 0.5),
    "clamp from below": lambda x: (x * 1).clamp(min=0.25) * 2,
    "clamp to the larger": lambda x: x.clamp(0.5, 0.25),
    "clamp to what 16 bits do not hold": lambda x: x.clamp(min=0.7) * x.clamp(max=0.7),
    "clip": lambda x: torch.clip(x, -2.0, 1),
    "clamp_max": lambda x: torch.clamp_max(x * 1, 1),
    "clamp_min": lambda x: x.clamp_min(0.0),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("program", PROGRAMS)
def test_it_is_handed_on(program: str, dtype: torch.dtype) -> None:
    check(PROGRAMS[program], torch.tensor(VALUES, dtype=dtype, requires_grad=True), **KERNELS)


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_is_no_number_stays_so(program: str, device: torch.device) -> None:
    x = torch.full((5,), nan, device=device)
    assert check(PROGRAMS[program], x[:0].requires_grad_())(x).isnan().all()


@pytest.mark.parametrize(("low", "high"), [(nan, None), (None, nan), (0.25, nan), (nan, 0.5)])
def test_between_what_is_no_number_nothing_is_one(
    low: float | None, high: float | None, device: torch.device
) -> None:
    x = torch.randn(5)
    found = jit(lambda x: (x * 2).clamp(low, high) * 3, **KERNELS)(x.to(device))
    torch.testing.assert_close(found.cpu(), (x * 2).clamp(low, high) * 3, equal_nan=True)
    assert found.isnan().all()
