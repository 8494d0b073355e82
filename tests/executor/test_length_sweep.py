"""A length that keeps changing costs three kernels, not one per length.

The first two lengths know all their numbers; from the third on the numbers that change are
parameters. Where a region is several kernels, each of them costs at most three.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import thunder
import torch
import torch.nn.functional as F

from tests.executor.test_norms import rmsnorm
from tests.executor.test_rope import rope
from thunder_fuser import fuser
from thunder_fuser.executor.explain import regions_of
from thunder_fuser.runtime.kernels import KERNELS

SWEEP = 10
KERNELS_PER_SWEEP = 3


def swiglu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.silu(a) * b


def gradients(output: torch.Tensor, args: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """For a cotangent that keeps sums over all rows near 1."""
    return torch.autograd.grad(output, args, torch.full_like(output, 2.0**-8))


def swept(
    fn: Callable[..., Any], make: Callable[[int], list[torch.Tensor]], cache: str, first: int
) -> tuple[int, int]:
    """Kernels that were obtained for `SWEEP` lengths, and segments of the last one's regions.
    Values and gradients are compared at every length."""
    KERNELS.clear()
    jfn = thunder.jit(fn, executors=[fuser], cache=cache)
    for step in range(SWEEP):
        args = make(first + 7 * step)
        found, expected = jfn(*args), fn(*args)
        torch.testing.assert_close(found, expected)
        if all(a.requires_grad for a in args):
            torch.testing.assert_close(gradients(found, args), gradients(expected, args))
    counted = KERNELS.statistics()
    plans = [region.plans()[-1] for region in regions_of(jfn)]
    segments = sum(len(re.findall(r"^segment \d", plan, re.MULTILINE)) for plan in plans)
    return counted.compiled + counted.disk_hits, segments


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(shape, requires_grad=True)


def test_rope_is_three_kernels() -> None:
    def make(n: int) -> list[torch.Tensor]:
        return [torch.randn(2, n, 512), torch.randn(n, 32), torch.randn(n, 32)]

    assert swept(rope(4, 2, 64, 32), make, "symbolic values", 5) == (KERNELS_PER_SWEEP, 1)


def test_swiglu_is_three_kernels_each_way() -> None:
    def make(n: int) -> list[torch.Tensor]:
        return [draw(2, n, 64), draw(2, n, 64)]

    kernels, segments = swept(swiglu, make, "constant values", 5)
    assert (kernels, segments) == (2 * KERNELS_PER_SWEEP, 2)


def test_sums_down_few_rows_are_three_kernels() -> None:
    def make(n: int) -> list[torch.Tensor]:
        return [torch.randn(n, 40)]

    kernels, segments = swept(lambda x: x.exp().sum(0), make, "constant values", 67)
    assert (kernels, segments) == (KERNELS_PER_SWEEP, 1)


def test_rmsnorm_is_three_kernels_per_segment() -> None:
    """From 100 rows on the sum over rows keeps its template; shorter ones have others."""

    def make(n: int) -> list[torch.Tensor]:
        return [draw(2, n, 64), draw(64)]

    kernels, segments = swept(rmsnorm, make, "constant values", 139)
    assert kernels <= segments * KERNELS_PER_SWEEP
