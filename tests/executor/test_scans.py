"""cumsum through Thunder: values, gradients, and what is left to torch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.executor.jitted import check, jit, regions
from thunder_fuser import explain
from thunder_fuser.executor.explain import regions_of

pytestmark = pytest.mark.usefixtures("device")
KERNELS = {"fuser_evaluator": False}

CASES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": lambda x: torch.cumsum(x * 2, -1) + 1,
    "of probabilities": lambda x: torch.cumsum(torch.softmax(x, -1), -1) * 2,
    "of truths": lambda x: torch.cumsum(x > 0, -1) * x,
    "in f64": lambda x: torch.cumsum(x * 2, -1, dtype=torch.float64) * 2,
    "its end": lambda x: (torch.cumsum(x * 2, -1)[..., -3:] * 2).sum(-1),
    "a quotient of two": lambda x: torch.cumsum(x * 2, -1) / torch.cumsum(x * x + 1, -1),
    "turned": lambda x: torch.cumsum(x * 2, -1).t() * 3,
    "flat": lambda x: torch.cumsum((x * 2).flatten(), -1) * 3,
    "of a column": lambda x: torch.cumsum(x[:, :1] * 2, 0) * 3,
    "down columns": lambda x: torch.cumsum(x * 2, 0) + 1,
    "along an axis between": lambda x: torch.cumsum(x[:, None, :].expand(5, 7, 43) * 2, 1) * 3,
    "down and along": lambda x: torch.cumsum(torch.cumsum(x * 2, 0), 1) * 3,
    "of probabilities down columns": lambda x: torch.cumsum(torch.softmax(x, 0), 0) * 2,
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_eagers(name: str) -> None:
    # Sums of sums cancel: in f32 they are as far from eager's as eager's are from the truth.
    dtype = torch.float64 if name == "down and along" else torch.float32
    check(CASES[name], torch.randn(5, 43, dtype=dtype, requires_grad=True), **KERNELS)


@pytest.mark.parametrize("name", ["sum", "down columns"])
def test_the_gradient_is_one_kernel_as_well(name: str) -> None:
    jfn = check(CASES[name], torch.randn(6, 131, requires_grad=True), **KERNELS)
    for found in regions_of(jfn):
        (plan,) = found.plans()
        assert plan.count("(kernel; ") == 1
        assert "torch;" not in plan


@pytest.mark.parametrize(
    ("shape", "dim"), [((9, 3000), 1), ((3000, 9), 0), ((2, 40001), 1), ((3, 700, 5), 1)]
)
def test_errors_are_like_those_of_eager(
    shape: tuple[int, ...], dim: int, device: torch.device
) -> None:
    x = torch.randn(shape, dtype=torch.bfloat16)
    jfn = jit(lambda x: torch.cumsum(x.float() * 2, dim) + 1, **KERNELS)
    exact = torch.cumsum(x.double() * 2, dim) + 1
    ours, eager = (
        (t.double() - exact).abs().max()
        for t in (jfn(x.to(device)).cpu(), torch.cumsum(x.float() * 2, dim) + 1)
    )
    # A thread's sums, a warp's and those of what is carried on are rounded to f32 one by one.
    assert ours <= 2 * eager + 16 * torch.finfo(torch.float32).eps * exact.abs().max()


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (lambda x: torch.cumsum(x.sum() * 2, 0) + 1, "a dim of a tensor that has none"),
        (lambda x: torch.cumsum(torch.complex(x, x), 1) + 1, "the running sum of"),
    ],
)
def test_what_is_left_to_torch_has_a_reason(
    program: Callable[[torch.Tensor], torch.Tensor], reason: str
) -> None:
    assert reason in explain(check(program, torch.randn(6, 9)))


def test_it_is_computed_once_for_forward_and_backward() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(torch.cumsum(x, -1) * 0.01)

    jfn = check(program, torch.randn(6, 131, requires_grad=True), **KERNELS)
    forward, backward = regions(jfn).forward, regions(jfn).backward
    assert [names.count("cumsum") for names in (*forward, *backward)] == [1, 1]
