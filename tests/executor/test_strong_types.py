"""Types of what integers, bools and tensors of rank 0 become, beside 16-bit floats."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.executor.jitted import check

Program = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
OF_INTEGERS: dict[str, Program] = {
    "mul": lambda i, h: i * 0.1 + h,
    "radd": lambda i, h: (1.5 + i) * h,
    "sub": lambda i, h: (i - 0.5) * h,
    "rsub": lambda i, h: (1.5 - i) * h,
    "div": lambda i, h: i / 3 + h,
    "rdiv": lambda i, h: (1.5 / (i + 1)) * h,
    "pow": lambda i, h: i**0.5 * h,
    "rpow": lambda i, h: 2.0**i * h,
    "functions": lambda i, h: torch.add(torch.sqrt(i), torch.mul(i, 0.5)) * h,
    "methods": lambda i, h: i.sigmoid().add(i.mul(0.5)) * h,
    "clamp": lambda i, h: i.clamp(0.5, 2.5) * h,
    "bool": lambda i, h: (i > 1) * 1.5 * h,
    "quotient of bools": lambda i, h: (i > 1) / 2 * h,
    "where": lambda i, h: torch.where(i > 1, 1.0, 0.0) * h,
    "stack": lambda i, h: torch.stack([i / 2, i * 0.5]) * h,
    "part": lambda i, h: (i / 3)[1:] * h[1:],
}
OF_RANK_0: dict[str, Program] = {
    "getitem": lambda i, h: h.float().sum()[None] * h,
    "unsqueeze": lambda i, h: h.float().sum().unsqueeze(0) * h,
    "reshape": lambda i, h: h.float().sum().reshape(1) * h,
    "expand": lambda i, h: h.float().sum().expand(5) * h,
    "sum": lambda i, h: h.float().sum(0, keepdim=True) * h,
    "mean": lambda i, h: h.float().mean(0, keepdim=True) * h,
    "amax": lambda i, h: h.float().amax(0, keepdim=True) * h,
    "var": lambda i, h: h.float().var(0, keepdim=True) * h,
}


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("program", (OF_INTEGERS | OF_RANK_0).values(), ids=OF_INTEGERS | OF_RANK_0)
def test_floats_have_a_type_that_holds(program: Program, dtype: torch.dtype) -> None:
    check(program, torch.arange(5), torch.randn(5, dtype=dtype))


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    "program",
    [
        lambda i, h: i.sum() * 0.5 * h,
        lambda i, h: (i * 0.5).mean() * h,
        lambda i, h: h.float().sum() * h,
        lambda i, h: torch.where(i > 1, h, 0.0) * h,
        lambda i, h: (i + 1) * 2 * h,
    ],
    ids=["sum", "mean", "of floats", "where", "integers"],
)
def test_those_of_rank_0_and_integers_give_way(program: Program) -> None:
    check(program, torch.arange(5), torch.randn(5, dtype=torch.float16))


@pytest.mark.usefixtures("device")
def test_a_gradient_comes_back_in_its_own_type() -> None:
    h = torch.randn(5, dtype=torch.bfloat16, requires_grad=True)
    check(lambda i, h: (i * 0.1 + h) * torch.where(i > 1, 1.0, 0.5), torch.arange(5), h)


@pytest.mark.usefixtures("device")
def test_what_is_written_keeps_its_type() -> None:
    h = torch.randn(5, dtype=torch.float16)
    check(lambda i, h: (h.mul_(i * 0.5), h + i / 2), torch.arange(5), h)
