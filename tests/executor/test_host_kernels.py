"""Programs through Thunder down to generated kernels, on the host target and on a GPU."""

from __future__ import annotations

import pytest
import torch

from tests.executor.jitted import check, region
from tests.executor.test_rope import rope

pytestmark = pytest.mark.usefixtures("device")
KERNELS = {"fuser_evaluator": False}


def test_rope_is_one_kernel_each_way() -> None:
    qkv = torch.randn(2, 5, (4 + 4) * 8, requires_grad=True)
    check(rope(4, 2, 8, 4), qkv, torch.randn(5, 4), torch.randn(5, 4), **KERNELS)


def test_a_write_and_its_readers() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z = x + y
        x.mul_(2)
        return z, x + y

    check(program, torch.randn(3, 5), torch.randn(3, 5), **KERNELS)


def test_values_keep_their_precision_inside_a_region(device: torch.device) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * y + x).exp() * y

    x, y = (torch.randn(7, 33, dtype=torch.bfloat16) for _ in range(2))
    jfn = check(program, x, y, **KERNELS)
    exact = program(x.double(), y.double())
    found = jfn(x.to(device), y.to(device)).cpu()
    ours, eager = ((t.double() - exact).abs().max() for t in (found, program(x, y)))
    assert ours <= eager


def test_a_symbolic_size_is_an_argument(device: torch.device) -> None:
    jfn = check(
        lambda x: torch.sin(x * 2 + 1), torch.randn(3, 5), cache="symbolic values", **KERNELS
    )
    for rows in (4, 9, 17):
        x = torch.randn(rows, 5).to(device)
        torch.testing.assert_close(jfn(x), torch.sin(x * 2 + 1))
    assert len(region(jfn).definitions) == 1
