"""A dimension that keeps changing costs three kernels, even and odd."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import thunder
import torch
import torch.nn.functional as F

from tests.devices import here
from thunder_fuser import fuser, options
from thunder_fuser.runtime import host_compiler
from thunder_fuser.runtime.kernels import KERNELS

pytestmark = pytest.mark.skipif(
    here().type == "cpu" and not host_compiler.compiler_available(), reason="no C++ compiler"
)
MEMBERS = 10
MOST_KERNELS = 3
Program = tuple[Callable[..., torch.Tensor], Callable[[int], tuple[torch.Tensor, ...]]]


@pytest.fixture(autouse=True)
def _own_kernels(tmp_path: Path) -> Iterator[None]:
    KERNELS.clear()
    with options(cache_dir=str(tmp_path)):
        yield
    KERNELS.clear()


def random_tensor(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.bfloat16).to(here()).requires_grad_()


def gated(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return F.silu(gate) * up


def normed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    wide = x if x.dtype == torch.float64 else x.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
    return (wide * scale).to(x.dtype) * weight


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    half = x.size(-1) // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


PROGRAMS: dict[str, Program] = {
    "widths_of_an_odd_count_of_gates": (
        gated,
        lambda n: (random_tensor(7, n), random_tensor(7, n)),
    ),
    "lengths_of_norms": (normed, lambda n: (random_tensor(n, 256), random_tensor(256))),
    "lengths_of_softmaxes": (softmax, lambda n: (random_tensor(n, 264),)),
    "lengths_of_rotations": (
        turned,
        lambda n: (random_tensor(2, 3, n, 64), random_tensor(n, 64), random_tensor(n, 64)),
    ),
}


def sizes() -> list[int]:
    """Even and odd ones, in any order."""
    return random.sample(range(33, 400), MEMBERS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_sweep_of_ten_costs_three_kernels(name: str) -> None:
    function, make = PROGRAMS[name]
    swept = sizes()
    for n in swept:
        inputs = make(n)
        found = thunder.jit(function, executors=[fuser])(*inputs)
        check([found], [function(*(t.detach().double() for t in inputs))])
    statistics = KERNELS.statistics()
    assert statistics.compiled <= MOST_KERNELS, swept
    assert statistics.families == 1


def test_so_does_its_backward() -> None:
    function, make = PROGRAMS["widths_of_an_odd_count_of_gates"]
    swept = sizes()
    for n in swept:
        inputs = make(n)
        found = thunder.jit(function, executors=[fuser])(*inputs)
        cotangent = torch.randn_like(found)
        wide = tuple(t.detach().double().requires_grad_() for t in inputs)
        expected = torch.autograd.grad(function(*wide), wide, cotangent.double())
        check(torch.autograd.grad(found, inputs, cotangent), expected)
    statistics = KERNELS.statistics()
    assert statistics.compiled <= 2 * MOST_KERNELS, swept
    assert statistics.families == 2


def check(found: Sequence[Any], expected: Sequence[torch.Tensor]) -> None:
    """Beside fp64: bf16 has eight bits."""
    for one, other in zip(found, expected, strict=True):
        distance = torch.linalg.vector_norm(one.detach().double() - other)
        assert float(distance / torch.linalg.vector_norm(other)) < 1e-2
