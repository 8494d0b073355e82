"""Gradients through writes into views: refused where they would be wrong, eager's elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.devices import here
from tests.executor.jitted import check, jit

pytestmark = pytest.mark.usefixtures("device")
Program = Callable[[torch.Tensor], torch.Tensor]

VIEWS: dict[str, Program] = {
    "slice": lambda y: y[:2],
    "select": lambda y: y.select(0, 1),
    "transpose": lambda y: y.t(),
    "view": lambda y: y.view(-1),
    "diagonal": lambda y: y.diagonal(),
    "contiguous": lambda y: y.contiguous(),
}


def written_through(view: Program) -> Program:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        view(y).mul_(3)
        return torch.exp(y)

    return program


def written_behind(view: Program) -> Program:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        v = view(y)
        y.mul_(y)
        return v

    return program


@pytest.mark.parametrize("order", [written_through, written_behind])
@pytest.mark.parametrize("name", VIEWS)
def test_a_gradient_that_would_miss_the_write_is_refused(
    name: str, order: Callable[[Program], Program], device: torch.device
) -> None:
    program = order(VIEWS[name])
    with pytest.raises(NotImplementedError, match=r"copy_.* wrote through another view.*clone"):
        jit(program)(torch.randn(4, 4, requires_grad=True, device=device))
    check(program, torch.randn(4, 4))


@pytest.mark.parametrize("name", VIEWS)
def test_a_constant_that_is_added_changes_no_gradient(name: str) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        VIEWS[name](y).add_(1)
        return torch.exp(y)

    check(program, torch.randn(4, 4, requires_grad=True))


@pytest.mark.parametrize("name", VIEWS)
def test_what_reads_the_written_view_itself_has_a_gradient(name: str) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        v = VIEWS[name](x * 2)
        v.mul_(3)
        return torch.exp(v[1:])

    check(program, torch.randn(4, 4, requires_grad=True))


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_taken_after_the_write_has_a_gradient(name: str) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.mul_(3)
        return torch.exp(VIEWS[name](y))

    check(program, torch.randn(4, 4, requires_grad=True))


@pytest.mark.parametrize("name", VIEWS)
def test_what_needs_no_gradient_may_be_written(name: str) -> None:
    def detached(x: torch.Tensor) -> torch.Tensor:
        z = x.detach() * 2
        VIEWS[name](z).mul_(3)
        return z * x

    def without(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            z = x * 2
            VIEWS[name](z).mul_(3)
        return z * x

    def compared(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        VIEWS[name](y).mul_(3)
        return (y > 0.5).float() * x

    for program in (detached, without, compared):
        check(program, torch.randn(4, 4, requires_grad=True))


def test_what_is_put_back_in_its_place_has_a_gradient() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y[:2] *= 3
        y[1:, 0] -= x[1:, 1]
        y[0] += x[1]
        return torch.exp(y)

    check(program, torch.randn(4, 4, requires_grad=True))


def test_what_is_put_in_another_place_is_refused() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        v = y[:2]
        v.mul_(3)
        y[1:3] = v
        return torch.exp(y)

    with pytest.raises(NotImplementedError, match="wrote through another view"):
        jit(program)(torch.randn(4, 4, requires_grad=True).to(here()))
