"""Norms and softmaxes through Thunder: one region each way, values against fp64 beside eager's."""

from __future__ import annotations

import re

import pytest
import thunder
import torch
import torch.nn.functional as F

from tests.executor.judging import Program, assert_near, judged, runs
from thunder_fuser import fuser
from thunder_fuser.executor.explain import regions_of
from thunder_fuser.executor.region import FusedRegion


def rmsnorm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    wide = x.float() if x.dtype is not torch.float64 else x
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
    return (wide * scale).to(x.dtype) * w


def layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, w.shape, w, b)


def rms_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, w.shape, w)


CASES = {
    "rmsnorm": (rmsnorm, [(57, 131), (131,)]),
    "rmsnorm of three dims": (rmsnorm, [(5, 9, 66), (66,)]),
    "rms_norm": (rms_norm, [(57, 96), (96,)]),
    "layer_norm": (layer_norm, [(57, 131), (131,), (131,)]),
    "layer_norm over two dims": (layer_norm, [(41, 5, 27), (5, 27), (5, 27)]),
    "layer_norm without weights": (lambda x: F.layer_norm(x, (67,)), [(37, 67)]),
    "group_norm": (lambda x, w, b: F.group_norm(x, 3, w, b), [(2, 24, 27, 29), (24,), (24,)]),
    "instance_norm": (
        lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
        [(3, 17, 27, 29), (17,), (17,)],
    ),
    "global response norm": (
        lambda x, w: (
            x + w * x * (n := x.square().sum((1, 2), keepdim=True).sqrt()) / n.mean(-1, True)
        ),
        [(3, 13, 14, 66), (66,)],
    ),
    "softmax": (lambda x: torch.softmax(x, -1), [(57, 131)]),
    "softmax down columns": (lambda x: torch.softmax(x, 0), [(57, 13)]),
    "softmax of a middle dim": (lambda x: torch.softmax(x, 1), [(3, 45, 7)]),
    "softmax down columns, along rows": (
        lambda x: torch.softmax(x, 0).square().sum(1),
        [(301, 64)],
    ),
    "log_softmax": (lambda x: torch.log_softmax(x, -1), [(57, 131)]),
    "variance": (lambda x: x.var(1), [(57, 131)]),
    "deviation over two dims": (
        lambda x: x * x.std((1, 2), correction=0, keepdim=True),
        [(29, 7, 19)],
    ),
    "standardised columns": (lambda x: (x - x.mean(0)) / x.std(0), [(67, 5)]),
    "deviation of a middle dim beside rows": (
        lambda x: (y := F.layer_norm(x, (130,))) * y.std(1, correction=0, keepdim=True),
        [(9, 65, 130)],
    ),
    "logsumexp": (lambda x: torch.logsumexp(x, -1), [(57, 131)]),
}


@pytest.mark.sanitizer
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("case", CASES)
def test_errors_are_like_those_of_eager(
    case: str, dtype: torch.dtype, device: torch.device
) -> None:
    program, shapes = CASES[case]
    args = [torch.randn(shape, dtype=dtype) for shape in shapes]
    cotangent = torch.randn(program(*args).shape, dtype=dtype)
    jfn = thunder.jit(program, executors=[fuser])
    assert_near(runs(jfn, args, cotangent, device), program, args, cotangent)


@pytest.mark.parametrize("reduce", [torch.sum, torch.prod, torch.amax, torch.amin])
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_reductions_are_exact_where_eager_is(
    reduce: Program, dim: int, dtype: torch.dtype, device: torch.device
) -> None:
    x = torch.randint(-3, 4, (35, 41, 37)).to(dtype)
    jfn = thunder.jit(lambda x: reduce(x * 2, dim) + 1, executors=[fuser])
    torch.testing.assert_close(jfn(x.to(device)).cpu(), reduce(x * 2, dim) + 1)


@pytest.mark.usefixtures("one_multiprocessor")
@pytest.mark.parametrize("case", ["rmsnorm", "layer_norm", "softmax", "log_softmax"])
def test_a_norm_is_one_region_and_one_kernel_each_way(case: str, device: torch.device) -> None:
    """Where so few rows fill the machine: else sums down their columns are a launch."""
    program, shapes = CASES[case]
    jfn = thunder.jit(program, executors=[fuser])
    args = [torch.randn(shape).to(device).requires_grad_() for shape in shapes]
    jfn(*args).sum().backward()
    assert [kinds(region) for region in regions_of(jfn)] == [["kernel"], ["kernel"]]


@pytest.mark.sanitizer
@pytest.mark.usefixtures("few_multiprocessors")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("shape", "dim"), [((61, 131), 0), ((257, 131), 0), ((300, 131), 0), ((3, 7, 5, 131), 1)]
)
def test_sums_over_several_normed_rows_are_a_second_kernel(
    shape: tuple[int, ...], dim: int, dtype: torch.dtype, device: torch.device
) -> None:
    """Where few blocks would walk the rows, or none: theirs is a number that deals them to few."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1).sum(dim)

    jfn = thunder.jit(program, executors=[fuser])
    x = torch.randn(shape).to(dtype)
    exact, found = program(x.double()), jfn(x.to(device)).cpu()
    rounding = torch.finfo(dtype).eps * exact.abs().max()
    assert (found - exact).abs().max() <= 2 * (program(x) - exact).abs().max() + 2 * rounding
    assert [kinds(region) for region in regions_of(jfn)] == [["kernel", "kernel"]]


def gated_norm(x: torch.Tensor, y: torch.Tensor, g: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    """A block of a diffusion transformer: each sample has its gate and its scale."""
    h = x + g[:, None] * y
    return h + F.layer_norm(h, h.shape[-1:]) * (1 + s[:, None])


@pytest.mark.sanitizer
@pytest.mark.usefixtures("one_multiprocessor")
@pytest.mark.parametrize(("columns", "dtype"), [(1040, torch.bfloat16), (516, torch.float32)])
def test_what_only_a_gate_s_gradient_reads_comes_with_the_row(
    columns: int, dtype: torch.dtype, device: torch.device
) -> None:
    shape = 3, 67, columns
    args = [torch.randn(s).to(dtype) for s in (shape, shape, shape[::2], shape[::2])]
    jfn = judged(gated_norm, args, torch.randn(shape).to(dtype), device)
    (plan,) = regions_of(jfn)[-1].last_used.leaf.program.plans[-1:]  # type: ignore[union-attr]
    (walk,) = plan.kernels
    assert walk is not None
    copies = re.findall(r"copy_async<16>\(v\d+_slots, .* (T\d+) ", walk.text)
    assert len(set(copies)) == 3  # what is normed, the branch, what is known of the result


def kinds(region: FusedRegion) -> list[str]:
    """What runs each segment of the region's only plan: kernel or torch."""
    (plan,) = region.plans()
    return re.findall(r"^segment \d+ \((\w+);", plan, re.MULTILINE)


@pytest.mark.usefixtures("few_multiprocessors")
def test_statistics_of_rows_and_columns_are_those_of_both(device: torch.device) -> None:
    """Of a plane that is large for the machine, so that blocks walk its rows."""

    def statistics(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        normed = F.layer_norm(x, (x.shape[-1],))
        return normed, x.var(0), normed.std(0), x.std(1), x.sum(0)

    x = torch.randn(4096, 130) * 2 + 0.5
    found = thunder.jit(statistics, executors=[fuser])(x.to(device))
    for value, exact in zip(found, statistics(x.double()), strict=True):
        torch.testing.assert_close(value.cpu().double(), exact, rtol=1e-5, atol=2e-5)
