"""Channels that blocks hold from their sums to what is stored of each element."""

from __future__ import annotations

import pytest
import torch

from tests.devices import ORDERS
from tests.programs import (
    chain,
    check,
    cubin_of,
    cuda_kernels,
    expand,
    fusion,
    like,
    reshape,
    total,
    whole,
)
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.row_ir import RowKernel

pytestmark = [pytest.mark.usefixtures("device", "wide_host"), pytest.mark.sanitizer]
SHAPES = {
    "of a warp": (3, 9, 4, 4),
    "of a block": (8, 9, 7, 5),
    "of a cluster": (40, 3, 29, 31),
    "of a cluster, in vectors": (24, 9, 32, 40),
    "one, of a cluster": (40, 1, 2, 3000),
}


def spread(sums: TensorView, over: TensorView) -> TensorView:
    """One value a channel at every element of it."""
    return expand(reshape(sums, 1, over.shape[1], *[1] * (over.ndim - 2)), *over.shape)


def without_sums(x: TensorView) -> tuple[TensorView, TensorView]:
    """x less what its channel sums up to, and below the largest of that: two phases."""
    inner = range(2, x.ndim)
    left = call("sub", x, spread(total(x, 0, *inner), x))
    largest = call("max", chain(left, "abs"), dims=(0, *inner))
    return left, call("sub", left, spread(largest, x))


@pytest.mark.parametrize("name", SHAPES)
def test_every_element_meets_the_sums_of_its_channel(name: str) -> None:
    x = whole(*SHAPES[name])
    (a,) = like(x)
    plan = check(fusion([a], *without_sums(a)), x, orders=ORDERS)
    assert plan.launches == 1
    (source,) = plan.kernels
    assert source is not None
    assert (source.cluster > 1) is ("cluster" in name)


def normalised(x: TensorView, y: TensorView) -> Fusion:
    """What a batch norm's backward does: two planes are read, one is stored, with sums of both."""
    wide, other = (call("cast", t, dtype=DataType.Float) for t in (x, y))
    inner = range(2, x.ndim)
    sums = total(other, 0, *inner), total(call("mul", wide, other), 0, *inner)
    made = call(
        "sub", call("sub", other, spread(sums[0], x)), call("mul", wide, spread(sums[1], x))
    )
    return fusion([x, y], call("cast", made, dtype=DataType.BFloat16), *sums)


@pytest.mark.parametrize(
    "shape", [(64, 256, 56, 56), (32, 512, 28, 28), (64, 1024, 14, 14)], ids=str
)
def test_gradients_of_images_are_kernels_that_hold_their_channels(shape: tuple[int, ...]) -> None:
    x, y = (torch.empty(shape, dtype=torch.bfloat16) for _ in range(2))
    segmented, (kernel,) = cuda_kernels(normalised(*like(x, y)), x, y)
    assert segmented.edge_bytes == 0
    assert isinstance(kernel, RowKernel)
    assert kernel.is_held
    assert cubin_of(kernel).spill_bytes == 0


def test_sums_that_other_rows_read_are_a_kernel_of_their_own() -> None:
    """x (6, 6, 40) less the sums of its channels, which are read along the images: no row of a
    block, and still nothing that torch has to run."""
    x = whole(6, 6, 40)
    (a,) = like(x)
    sums = total(a, 0, 2)
    turned = expand(reshape(sums, 6, 1, 1), 6, 6, 40)
    plan = check(fusion([a], call("sub", a, turned)), x)
    assert plan.launches == len(plan.segmented.segments) == 2
