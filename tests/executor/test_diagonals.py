"""Diagonals: views where they are written or returned, a gather within a region otherwise."""

from __future__ import annotations

import pytest
import torch

from tests.executor.jitted import check, jit, region
from thunder_fuser import explain

pytestmark = pytest.mark.usefixtures("device")

PLACES = pytest.mark.parametrize(
    ("shape", "offset", "dims"),
    [
        ((4, 4), 0, (0, 1)),
        ((4, 6), 2, (0, 1)),
        ((5, 3), -1, (1, 0)),
        ((5, 3), -1, (0, 1)),
        ((2, 3, 4), 1, (-1, 0)),
    ],
)


@PLACES
def test_a_write_into_a_diagonal_reaches_the_argument(
    shape: tuple[int, ...], offset: int, dims: tuple[int, int]
) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        x.diagonal(offset, *dims).add_(1).mul_(3)
        return torch.exp(x) * 2

    check(program, torch.randn(shape))


def test_a_diagonal_shows_what_is_written_into_its_tensor() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        d = torch.diagonal(x)
        x.mul_(2)
        return torch.exp(d) * 2, d

    check(program, torch.randn(4, 4))


def test_a_write_into_a_diagonal_of_an_intermediate() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.diagonal().zero_()
        return torch.exp(y) * 3

    check(program, torch.randn(4, 4))


def test_a_write_into_a_view_of_a_diagonal() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        x.diagonal()[1:].unsqueeze(0).mul_(7.0)
        return x * 2 + 1

    check(program, torch.randn(4, 4))


def test_a_returned_diagonal_is_a_view_of_the_argument(device: torch.device) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.diagonal(1), torch.exp(x) * 2

    x = torch.randn(4, 4).to(device)
    jfn = jit(program)
    assert jfn(x)[0].data_ptr() == x[0, 1:].data_ptr()
    assert "diagonal             outside: its result may be written" in explain(jfn)


@PLACES
def test_a_diagonal_that_is_only_read_stays_in_its_region_and_has_a_gradient(
    shape: tuple[int, ...], offset: int, dims: tuple[int, int], device: torch.device
) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.exp((x * 2).diagonal(offset, *dims)) * 3

    check(program, torch.randn(shape, dtype=torch.float64, requires_grad=True))
    jfn = jit(program)
    jfn(torch.randn(shape, device=device))
    assert "take" in str(region(jfn))


@pytest.mark.parametrize(
    ("offset", "dims"), [(3, (0, 1)), (5, (-2, -1)), (-2, (0, 1)), (-9, (1, 2))]
)
def test_a_diagonal_beside_the_matrix_has_no_elements(offset: int, dims: tuple[int, int]) -> None:
    x = torch.randn(2, 3, 4, requires_grad=True)
    check(lambda x: (x * 2).diagonal(offset, *dims) + 1, x)
    check(lambda x: ((x * 2).diagonal(offset, *dims), x * 3), x)
    check(lambda x: (x.diagonal(offset, *dims).add_(1) * 2, x * 2), x.detach())
