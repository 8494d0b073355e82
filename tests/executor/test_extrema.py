"""argmax and argmin through Thunder."""

from __future__ import annotations

import pytest
import torch

from tests.executor.jitted import check, region
from thunder_fuser import explain

pytestmark = pytest.mark.usefixtures("device")
KERNELS = {"fuser_evaluator": False}


@pytest.mark.parametrize("dim", [None, 0, -1])
@pytest.mark.parametrize("keepdim", [True, False])
def test_places_are_torchs(dim: int | None, keepdim: bool) -> None:
    x = (torch.randn(40, 131) * 2).round()
    check(lambda x: torch.argmax(x * 2, dim, keepdim), x, **KERNELS)
    check(lambda x: torch.argmin(x * 2, dim, keepdim), x, **KERNELS)


def test_the_chosen_elements_have_gradients() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.gather(x * 2, 1, torch.argmax(x, 1, keepdim=True)) + 1

    check(program, torch.randn(9, 131, requires_grad=True), **KERNELS)


def test_the_place_and_what_lies_there_are_one_region() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        place = torch.argmax(x, 1, keepdim=True)
        return place, torch.gather(x * 2, 1, place)

    jfn = check(program, torch.randn(9, 131), **KERNELS)
    (plan,) = region(jfn).plans()
    assert "take_along_axis reads what must be stored first" in plan


def test_what_has_no_place_is_left_to_torch() -> None:
    jfn = check(lambda x: (x * 2).argmax() + 1, torch.randn(()))
    assert "it reduces a dim of a tensor that has none" in explain(jfn)
