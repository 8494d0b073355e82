"""fuser.profile(jfn, *args): every region of one call, forward and backward."""

from __future__ import annotations

import pytest
import torch

from tests.executor.jitted import jit, region
from thunder_fuser import fuser


def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.exp(torch.cumprod(torch.sin(x) * y, 0)) * 2


def test_regions_of_forward_and_backward_are_timed() -> None:
    x, y = torch.randn(3, 5, requires_grad=True), torch.randn(3, 5)
    profile = fuser.profile(jit(program, fuser_evaluator=False), x, y)
    names = [run.region for run in profile.regions]
    assert names[:2] == ["TF0", "TF1"]
    assert len(names) > 2
    assert x.grad is None
    assert profile.seconds == sum(run.seconds for run in profile.regions)
    assert all(segment.seconds > 0 for run in profile.regions for segment in run.segments)
    assert len(str(profile).splitlines()) == 1 + sum(2 for _ in names)


def test_modules_are_profiled_and_calls_afterwards_are_not() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.GELU())
    jfn = jit(module)
    x = torch.randn(4, 5)
    assert len(fuser.profile(jfn, x).regions) >= 2
    assert all(p.grad is None for p in module.parameters())
    found = jfn(x)
    torch.testing.assert_close(found, module(x))


def test_a_region_profiles_only_inside_the_block() -> None:
    jfn = jit(lambda a, b: torch.sin(a) * b)
    x, y = torch.randn(3, 5), torch.randn(3, 5)
    jfn(x, y)
    with region(jfn).profiled() as found:
        jfn(x, y)
        jfn(x.t().contiguous().t(), y)
    jfn(x, y)
    assert [run.region for run in found] == ["TF0", "TF0"]


def test_other_functions_are_refused() -> None:
    with pytest.raises(ValueError, match=r"was not made by thunder\.jit"):
        fuser.profile(program, torch.randn(3))
