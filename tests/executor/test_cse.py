"""Equal expressions once; random draws and written values never."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.executor.jitted import check, jit, regions


@pytest.mark.usefixtures("device")
def test_equal_expressions_are_computed_once() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b, c, d = x + y, y - x, x + y, y - x
        return a * b, torch.exp(c * d)

    jfn = check(program, torch.randn(3, 5), torch.randn(3, 5))
    assert regions(jfn).forward == (("add", "sub", "mul", "exp"),)


@pytest.mark.usefixtures("device")
def test_equal_results_stay_two_tensors() -> None:
    """What the caller writes into one of them is not in the other."""

    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.sin(x) * 2, torch.sin(x) * 2

    jfn = check(program, torch.randn(3, 5))
    assert regions(jfn).forward == (("sin", "mul", "mul"),)
    first, second = jfn(torch.rand(3, 5) + 0.5)
    first.zero_()
    assert (second > 0).all()


VIEWS: dict[str, Callable[[torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "contiguous already": lambda x: (x * 2, (x * 2).contiguous()),
    "a view of each": lambda x: ((x * 2).view(-1), (x * 2).t()),
    "one view of each": lambda x: (torch.exp(x * 2)[0], torch.exp(x * 2)[0]),
    "of another type": lambda x: (x.double().view(-1), x.double().view(-1)),
    "copies": lambda x: (x.t().reshape(-1)[1:], x.t().reshape(-1)[1:]),
    "three": lambda x: ((x * 2)[1:], (x * 2)[1:], (x * 2)[1:], torch.exp(x * 2)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_returned_views_of_equal_values_are_of_two(name: str, device: torch.device) -> None:
    results = jit(VIEWS[name])(torch.randn(4, 4).to(device))
    assert len({t.untyped_storage().data_ptr() for t in results}) == len(results)


def test_equal_views_of_an_argument_are_computed_with_once(device: torch.device) -> None:
    jfn = jit(lambda x: (torch.exp(x.view(-1)) * torch.exp(x.view(-1)), x.view(-1)))
    jfn(torch.randn(4, 4).to(device))
    assert str(regions(jfn).forward).count("exp") == 1


@pytest.mark.usefixtures("device")
def test_equal_expressions_across_regions_keep_their_values() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        a = torch.sin(x) * 2
        b = torch.cumprod(a, 0)
        return torch.sin(x) * 2 + b

    check(program, torch.randn(3, 5))


def test_two_draws_stay_two() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        draws = torch.rand(16), torch.rand(16), torch.randn(16), torch.randn(16)
        return tuple(torch.sin(d + x) for d in draws)

    a, b, c, d = jit(program)(torch.zeros(16))
    assert not torch.equal(a, b)
    assert not torch.equal(c, d)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("evaluator", [True, False])
def test_zeros_of_two_signs_are_two_numbers(evaluator: bool) -> None:
    jfn = jit(lambda x: (1 / (x * 0.0), 1 / (x * -0.0)), fuser_evaluator=evaluator)
    above, below = jfn(torch.ones(3))
    assert (above > 0).all()
    assert (below < 0).all()
