"""Largest and smallest elements along a dim, whose gradient goes to one of several equal ones."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

import pytest
import thunder
import torch

from tests.devices import here
from tests.executor.jitted import check, jit, regions, saved
from tests.pairwise import pairwise

KERNELS = {"fuser_evaluator": False}
Along = Callable[..., Any]


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    ("place", "dtype", "along"),
    pairwise(
        [((7, 33), 1), ((7, 33), -2), ((3, 5, 4), 1), ((4, 1), 1), ((1031,), 0)],
        [torch.float32, torch.bfloat16],
        [torch.max, torch.min],
    ),
)
def test_of_equal_elements_the_first_has_the_gradient(
    place: tuple[tuple[int, ...], int], dtype: torch.dtype, along: Along
) -> None:
    shape, dim = place
    x = torch.randint(-3, 4, shape).to(dtype).requires_grad_()
    check(lambda x: along(x * 2, dim), x, **KERNELS)
    check(lambda x: along(x, dim=dim, keepdim=True), x, **KERNELS)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("along", [torch.max, torch.min], ids=["max", "min"])
def test_numbers_that_are_none_win_as_in_torch(along: Along) -> None:
    x = torch.randn(5, 300)
    x[0, 17] = x[0, 203] = nan
    x[1, :] = -inf
    x[2, :] = inf
    x[3, 7], x[3, 11] = inf, -inf
    found = jit(lambda x: along(x, 1), **KERNELS)(x.to(here()))
    for ours, eager in zip(found, along(x, 1), strict=True):
        torch.testing.assert_close(ours.cpu(), eager, equal_nan=True)


@pytest.mark.usefixtures("device")
def test_the_backward_reads_places_and_nothing_else() -> None:
    x = torch.randn(64, 512, dtype=torch.bfloat16, device=here(), requires_grad=True)
    jfn = jit(lambda x: torch.max(x, 1)[0])
    jfn(x).sum().backward()
    assert list(saved(jfn).values()) == [64 * 8]
    assert len(regions(jfn).backward) == 1


def test_the_larger_of_two_and_the_largest_of_all_stay_thunders() -> None:
    x, y = (torch.randn(5, 33, requires_grad=True) for _ in range(2))
    check(lambda x, y: (torch.max(x, y), torch.max(x * y)), x, y)


def test_a_dim_that_is_none_is_refused_as_by_thunder() -> None:
    x = torch.randn(5, 33, device=here())
    for along in (torch.max, torch.min):
        with pytest.raises((IndexError, ValueError, RuntimeError), match=r"[Dd]im"):
            thunder.jit(lambda x: along(x, 2))(x)  # noqa: B023
        with pytest.raises((IndexError, ValueError, RuntimeError), match=r"[Dd]im"):
            jit(lambda x: along(x, 2))(x)  # noqa: B023
