"""Which sums over the rows of samples in all images are made sums that blocks walk."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import pytest
import torch

from tests.devices import ORDERS
from tests.kernel.test_walked_rows import met
from tests.programs import (
    H200,
    STRICT,
    check,
    cuda_kernels,
    expand,
    like,
    machine,
    total,
    unsqueeze,
    whole,
)
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.presegment.group_samples import group_samples

FEW = 2  # multiprocessors, for which small planes are large
SHAPE = (6, 2, 256, 128)


def away(x: TensorView, *down: TensorView) -> Fusion:
    """Rows less their sums, and `down` by default the sum over images and rows."""
    inner = expand(unsqueeze(total(x, 3), 3), *x.shape)
    return Fusion((x,), (call("sub", x, inner), *(down or [total(x, 0, 2)])))


def test_a_block_has_a_part_of_a_sample_in_all_images() -> None:
    made = group_samples(away(tensor(DataType.BFloat16, *SHAPE)), machine(FEW))
    assert str(made) == dedent("""\
        fusion(T0: bf16[i6, i2, i256, i128]) {
          T1: bf16[i6, i2, i256, r128] = sum(T0, dims=[3])
          T2: bf16[i6, i2, i256, b1] = broadcast(T1, is_broadcast_dim=[False, False, False, True])
          T3: bf16[i6, i2, i256, b128] = expand(T2, shape=[6, 2, 256, 128])
          T4: bf16[i6, i2, i256, i128] = sub(T0, T3)
          T5: f32[i6, i2, i256, i128] = cast(T0, dtype=f32)
          T6: f32[i6, i2, i2, i128, i128] = reshape(T5, new_shape=[6, 2, 2, 128, 128])
          T7: f32[i2, i2, i6, i128, i128] = permute(T6, dims=[1, 2, 0, 3, 4])
          T8: f32[i2, i2, r6, r128, i128] = sum(T7, dims=[2, 3], walked=3072)
          T9: f32[i2, r2, i128] = sum(T8, dims=[1])
          T10: bf16[i2, i128] = cast(T9, dtype=bf16)
          return T4, T10
        }""")


X = tensor(DataType.BFloat16, *SHAPE)
Y = tensor(DataType.BFloat16, 6, 2, 250, 129)
LEFT = {
    "another sum beside it": away(X, total(X, 0, 2), total(X, 0, 1, 2)),
    "what images share": away(X, total(X, 0)),
    "rows of each image": away(X, total(X, 2)),
    "no sum along rows": Fusion((X,), (total(X, 0, 2),)),
    "odd rows": away(Y),
}


@pytest.mark.parametrize("case", LEFT)
def test_other_sums_are_left(case: str) -> None:
    assert group_samples(LEFT[case], machine(FEW)) is LEFT[case]


def test_a_small_plane_is_left() -> None:
    program = away(X)
    assert group_samples(program, machine(132)) is program


@pytest.mark.parametrize("shape", [SHAPE, (2, 2, 96, 4096)])
def test_each_row_is_walked_once(shape: tuple[int, ...]) -> None:
    x = torch.empty(shape, dtype=torch.bfloat16)
    target = replace(H200, multiprocessors=FEW)
    _, kernels = cuda_kernels(group_samples(away(*like(x)), machine(FEW)), x, target=target)
    kernel, *others = kernels
    assert isinstance(kernel, RowKernel)
    assert kernel.sums
    assert sorted(met(kernel.axes)) == list(range(x[..., 0].numel()))
    assert not any(isinstance(k, RowKernel) for k in others)


@pytest.mark.usefixtures("device", "few_multiprocessors")
@pytest.mark.parametrize("order", ORDERS)
def test_the_sums_are_the_same(order: str) -> None:
    x = whole(12, 4, 128, 64)
    plan = check(away(*like(x)), x, options=replace(STRICT, thread_order=order))
    assert plan.launches == 2
