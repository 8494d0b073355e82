"""The backward of a relu compares what it returned where that is in memory anyway."""

from __future__ import annotations

import pytest
import torch

from tests.devices import here
from tests.executor.jitted import check, regions, saved
from tests.executor.jitted import jit as jitted

pytestmark = pytest.mark.usefixtures("device")


def operand(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype).requires_grad_()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_returned_relu_leaves_no_mask(dtype: torch.dtype) -> None:
    x, y = operand(7, 33, dtype=dtype), operand(33, 7, dtype=dtype)
    jfn = check(lambda x, y: torch.relu(x.t() + y), x, y)
    assert list(saved(jfn).values()) == [7 * 33 * dtype.itemsize]
    found = regions(jfn)
    assert found.forward[0].count("le") == 1
    assert found.backward[0].count("le") == 1


def test_a_relu_written_out_leaves_no_mask() -> None:
    def written_out(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = x + y
        return torch.where(total > 0, total, 0.0)

    jfn = check(written_out, operand(7, 33), operand(7, 33))
    assert list(saved(jfn).values()) == [7 * 33 * 4]
    assert regions(jfn).backward[0].count("gt") == 1


def test_a_relu_that_a_product_reads_leaves_no_mask() -> None:
    jfn = check(lambda x, w: torch.relu(x * 2) @ w, operand(5, 12), operand(12, 3))
    assert sorted(saved(jfn).values()) == [12 * 3 * 4, 5 * 12 * 4]  # of w and of what it meets


def test_a_relu_inside_of_a_region_is_computed_again() -> None:
    jfn = check(lambda x: torch.cos(torch.relu(torch.sin(x))), operand(5, 12))
    assert list(saved(jfn).values()) == [5 * 12 * 4]


def test_a_mask_that_is_returned_is_read() -> None:
    def masked(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mask = x > 0
        return torch.where(mask, x, 0.0), mask

    jfn = check(masked, operand(3, 11))
    assert list(saved(jfn).values()) == [3 * 11]


def test_a_relu_that_is_written_over_is_not_compared() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x * 2)
        z = y * 3
        y.add_(1.0)  # eager refuses to differentiate this
        return z

    x = operand(4, 9).detach().to(here()).requires_grad_()
    jitted(function)(x).sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, 6.0 * (x > 0))
