"""Columns that are stored by threads with as many rows as their registers hold: what rows share,
and what a phase leaves, is computed once."""

from __future__ import annotations

import pytest
import torch

from tests.programs import (
    H200,
    chain,
    cubin_of,
    cuda_kernels,
    expand,
    fusion,
    ints,
    like,
    run_in_orders,
    total,
    unsqueeze,
)
from tests.test_kept_kernels import RELAXED, spread
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.kept_ir import KeptKernel

pytestmark = [pytest.mark.usefixtures("device", "wide_host"), pytest.mark.sanitizer]


def gradient(
    x: TensorView,
    top: TensorView,
    area: TensorView,
    index: TensorView,
    a: TensorView,
    b: TensorView,
) -> TensorView:
    """Of a softmax of classes, of which each has a slope of its sample, and another where it is the
    wanted one."""
    n, c, s = x.shape
    wide = call("cast", x, dtype=DataType.Float)
    shares = call("div", chain(call("sub", wide, spread(top, wide)), "exp"), spread(area, wide))
    places = call("iota", *ints([0, 1]), length=ints([c]), dtype=DataType.Int)
    rows = expand(unsqueeze(unsqueeze(places, 1), 0), n, c, s)
    wanted = call("eq", spread(call("in_range", index, sc.constant(c)), wide), rows)
    number = call("cast", wanted, dtype=DataType.Float)
    slope = call("div", a, b)
    always, other = (expand(unsqueeze(tv, 2), n, c, s) for tv in (call("div", slope, b), slope))
    slopes = call("add", always, call("mul", number, other))
    sums = spread(total(call("mul", shares, slopes), 1), wide)
    return call("cast", call("mul", shares, call("sub", slopes, sums)), dtype=x.dtype)


def given(n: int, c: int, s: int, dtype: torch.dtype, device: str = "cpu") -> list[torch.Tensor]:
    if device == "meta":
        sizes = [((n, c, s), dtype), *[((n, s), torch.float32)] * 2, ((n, s), torch.int64)]
        sizes += [((n, c), torch.float32)] * 2
        return [torch.empty(size, dtype=kind, device=device) for size, kind in sizes]
    x = torch.randn(n, c, s).to(dtype)
    top, index = x.float().amax(1), torch.randint(c, (n, s))
    area = (x.float() - top[:, None]).exp().sum(1)
    return [x, top, area, index, torch.randn(n, c), torch.rand(n, c) + 1]


def program(*tensors: torch.Tensor) -> Fusion:
    tvs = like(*tensors)
    return fusion(list(tvs), gradient(*tvs))


def kernel_of(*sizes: int) -> KeptKernel:
    tensors = given(*sizes, torch.bfloat16, "meta")
    _, (kernel,) = cuda_kernels(program(*tensors), *tensors, target=H200)
    assert isinstance(kernel, KeptKernel)
    return kernel


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((3, 19, 40), torch.float16),  # whole columns; blocks with some of several samples
        ((2, 47, 64), torch.bfloat16),  # of one each
        ((1, 150, 24), torch.float16),  # rows beyond those of the threads
        ((2, 33, 35), torch.float16),  # no vectors: as before
    ],
    ids=str,
)
def test_gradients_of_classes_are_one_kernel(
    shape: tuple[int, int, int], dtype: torch.dtype
) -> None:
    x, top, area, index, a, b = tensors = given(*shape, dtype)
    plan, results = run_in_orders(program(*tensors), *tensors, options=RELAXED)
    assert plan.launches == 1
    shares = (x.double() - top[:, None]).exp() / area[:, None]
    wanted = torch.nn.functional.one_hot(index, shape[1]).permute(0, 2, 1).double()
    slopes = (a.double() / b**2)[:, :, None] + wanted * (a / b)[:, :, None]
    exact = shares * (slopes - (shares * slopes).sum(1, keepdim=True))
    size = shares * (slopes.abs() + (shares * slopes).sum(1, keepdim=True).abs())
    for (found,) in results:
        assert ((found.double() - exact).abs() <= torch.finfo(dtype).eps * size + 1e-6).all()


def test_threads_share_what_rows_have_and_leave_what_two_phases_need() -> None:
    kernel = kernel_of(64, 40, 12544)
    assert (kernel.threads_across, kernel.threads_down, kernel.axes.lanes) == (32, 2, 2)
    assert kernel.at_rows is not None
    assert (len(kernel.at_rows.arrays), kernel.at_rows.samples) == (2, 1)
    assert [len(phase.held) for phase in kernel.phases] == [1]


def test_a_block_may_have_columns_of_two_samples() -> None:
    kernel = kernel_of(2761, 36, 784)
    assert kernel.at_rows is not None
    assert kernel.at_rows.samples == 2
    assert cubin_of(kernel).spill_bytes == 0
