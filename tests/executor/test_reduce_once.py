"""What the forward reduces so that the backward reads memory once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.executor.jitted import check, regions

pytestmark = pytest.mark.usefixtures("device")

Function = Callable[[torch.Tensor], torch.Tensor]
ROWS = 1100


def tied(*shape: int) -> torch.Tensor:
    """Many elements of each column are its extremum."""
    return torch.randint(-3, 3, shape).to(torch.bfloat16).requires_grad_()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.amax(x, 0) * 2,
        lambda x: torch.amin(x, 0) * 2,
        lambda x: x.abs().amax(0) * 2,
        lambda x: x.clamp(-2, 1).amax(0) * 2,
        lambda x: x.std(0) * 2,
        lambda x: x.var(0) * 2,
        lambda x: x.reshape(11, 100, -1).float().std((0, 1)) * 2,
    ],
    ids=["amax", "amin", "sizes", "clamped", "std", "var", "dims"],
)
def test_what_the_gradient_divides_by_or_subtracts_is_of_the_forward(function: Function) -> None:
    jfn = check(function, tied(ROWS, 9))
    assert any("sum" in names for names in regions(jfn).forward)
    assert all("sum" not in names for names in regions(jfn).backward)


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: x.std(0) * 2, (200, 9)),
        (lambda x: torch.amax(x, 1) * 2, (9, ROWS)),
        (lambda x: torch.amax(x.sin(), 0) * 2, (ROWS, 9)),  # found again
        (lambda x: torch.amax(x.clamp(-0.3, 0.3), 0) * 2, (ROWS, 9)),  # rounded to 16 bits
    ],
    ids=["kept columns", "kept rows", "of computed values", "of rounded ones"],
)
def test_what_reads_nothing_again_stays(function: Function, shape: tuple[int, int]) -> None:
    jfn = check(function, tied(*shape))
    assert all("sum" not in names for names in regions(jfn).forward)


def test_of_what_was_written_nothing_moves() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return (x * y).std(0)

    check(program, tied(ROWS, 9).detach(), tied(ROWS, 9))
