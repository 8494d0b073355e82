"""Columns of samples that meet in the blocks which keep them."""

from __future__ import annotations

import pytest
import torch

from tests.devices import ORDERS, copies
from tests.programs import (
    chain,
    clusters,
    cubin_of,
    cuda_kernels,
    expand,
    fusion,
    like,
    plan_of,
    total,
    unsqueeze,
)
from tests.test_kept_kernels import is_close
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.kept_ir import KeptKernel
from thunder_fuser.options import Options

pytestmark = [pytest.mark.usefixtures("device", "one_multiprocessor"), pytest.mark.sanitizer]
SHAPES = {  # a shape, its type, and how many blocks abreast have a sample
    "a block has it": ((3, 40, 96), torch.bfloat16, 1),
    "rows beyond those of the threads": ((2, 67, 100), torch.float32, 1),
    "two blocks have it": ((2, 577, 96), torch.bfloat16, 2),
    "four": ((1, 198, 384), torch.float16, 4),
    "eight": ((2, 49, 2048), torch.float32, 8),
}


def along(column: TensorView, plane: TensorView) -> TensorView:
    """One value a column of each sample at all of its rows."""
    return expand(unsqueeze(column, 1), *plane.shape)


def response(x: TensorView, weight: TensorView) -> Fusion:
    """The norm, the size of each channel and the mean size of each sample."""
    samples, _, columns = x.shape
    wide = call("cast", x, dtype=DataType.Float)
    size = chain(total(call("mul", wide, wide), 1), "sqrt")
    mean = call("div", total(size, 1), sc.constant(float(columns)))
    share = call("div", size, expand(unsqueeze(mean, 1), samples, columns))
    scaled = call("mul", call("mul", wide, along(share, wide)), expand(weight, *x.shape))
    made = call("cast", call("add", scaled, wide), dtype=x.dtype)
    return fusion([x, weight], made, size, mean)


def eager(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
    size = x.pow(2).sum(1).sqrt()
    mean = size.mean(1)
    return x * (size / mean[:, None])[:, None] * weight + x, size, mean


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", SHAPES)
def test_a_response_norm_is_one_kernel(name: str, order: str) -> None:
    shape, dtype, blocks = SHAPES[name]
    given = [torch.randn(shape).to(dtype), torch.randn(shape[-1])]
    options = Options(thread_order=order)
    plan = plan_of(response(*like(*given)), *copies(given), options=options)
    assert (plan.launches, clusters(plan)) == (1, [str(blocks)] * (blocks > 1))
    exact, usual = (eager(*(t.to(wide) for t in given)) for wide in (torch.double, torch.float))
    for found, true, near in zip(plan.run(*copies(given)), exact, usual, strict=True):
        assert is_close(found, true, near.to(found.dtype), float(true.abs().max()))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", [(3, 40, 96), (2, 321, 96)], ids=str)
def test_sums_meet_of_two_planes_and_twice(shape: tuple[int, ...], order: str) -> None:
    """The second time of columns that needed what came of the first."""

    def made(x: TensorView, g: TensorView) -> Fusion:
        own = total(call("mul", x, g), 1)
        first = expand(unsqueeze(total(own, 1), 1), *own.shape)
        second = total(chain(call("div", own, first), "sqrt"), 1)
        spread = call("add", first, expand(unsqueeze(second, 1), *own.shape))
        return fusion([x, g], call("mul", g, along(spread, g)), second)

    def exact(x: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, ...]:
        own = (x * g).sum(1)
        first = own.sum(1, keepdim=True)
        second = (own / first).sqrt().sum(1)
        return g * (first + second[:, None])[:, None], second

    given = [torch.rand(shape), torch.rand(shape)]
    options = Options(thread_order=order)
    plan = plan_of(made(*like(*given)), *copies(given), options=options)
    assert plan.launches == 1
    true, usual = exact(*(t.double() for t in given)), exact(*given)
    for found, right, near in zip(plan.run(*copies(given)), true, usual, strict=True):
        assert is_close(found, right, near, float(right.abs().max()))


@pytest.mark.parametrize("lies", ["transposed", "misaligned"])
def test_what_lies_otherwise_is_read_again(lies: str) -> None:
    """Of columns that lie apart, or align no vectors."""
    x = {
        "transposed": torch.randn(3, 96, 40).transpose(1, 2),
        "misaligned": torch.randn(3 * 40 * 96 + 1)[1:].view(3, 40, 96),
    }[lies]
    given = [x, torch.randn(96)]
    options = Options()
    plan = plan_of(response(*like(*given)), *copies(given), options=options)
    assert not any(segment.is_opaque for segment in plan.segmented.segments)
    exact = eager(*(t.double() for t in given))
    for found, true, near in zip(plan.run(*copies(given)), exact, eager(*given), strict=True):
        assert is_close(found, true, near, float(true.abs().max()))


def kept(shape: tuple[int, ...]) -> list[KeptKernel]:
    """Of those that an H200 runs."""
    given = [torch.empty(shape, dtype=torch.bfloat16), torch.empty(shape[-1], dtype=torch.bfloat16)]
    _, kernels = cuda_kernels(response(*like(*given)), *given)
    return [k for k in kernels if isinstance(k, KeptKernel)]


@pytest.mark.parametrize("shape", [(300, 3001, 2048), (3000, 40, 97), (16, 64, 4096)], ids=str)
def test_others_are_read_again(shape: tuple[int, ...]) -> None:
    """More than a cluster holds, no vectors, and fewer blocks than multiprocessors."""
    assert not kept(shape)


@pytest.mark.parametrize("shape", [(2730, 256, 96), (128, 196, 1536), (128, 49, 3072)], ids=str)
def test_nvrtc_compiles_it_without_spills(shape: tuple[int, ...]) -> None:
    (kernel,) = kept(shape)
    assert cubin_of(kernel).spill_bytes == 0
