"""Which sums over images are walked beside sums over all of their rows."""

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
    reshape,
    total,
    unsqueeze,
    whole,
)
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.presegment.walk_images import walk_images

FEW = 4  # multiprocessors, for which small planes are large
SHAPE = (64, 20, 512)


def away(x: TensorView, *down: TensorView) -> Fusion:
    """Rows less their sums, and by default the sums of the result over images, and of `x` over all
    rows."""
    inner = expand(unsqueeze(total(x, x.ndim - 1), x.ndim - 1), *x.shape)
    left = call("sub", x, inner)
    return Fusion((x,), (left, *(down or [total(left, 0), total(x, 0, 1)])))


def test_a_block_has_the_same_row_of_each_image() -> None:
    made = walk_images(away(tensor(DataType.Float, *SHAPE)), machine(FEW))
    assert str(made) == dedent("""\
        fusion(T0: f32[i64, i20, i512]) {
          T1: f32[i64, i20, r512] = sum(T0, dims=[2])
          T2: f32[i64, i20, b1] = broadcast(T1, is_broadcast_dim=[False, False, True])
          T3: f32[i64, i20, b512] = expand(T2, shape=[64, 20, 512])
          T4: f32[i64, i20, i512] = sub(T0, T3)
          T5: f32[i20, i64, i512] = permute(T4, dims=[1, 0, 2])
          T6: f32[i20, r64, i512] = sum(T5, dims=[1], walked=1280)
          T7: f32[i20, i64, i512] = permute(T0, dims=[1, 0, 2])
          T8: f32[i20, r64, i512] = sum(T7, dims=[1], walked=1280)
          T9: f32[r20, i512] = sum(T8, dims=[0])
          return T4, T6, T9
        }""")


@pytest.mark.parametrize(
    ("images", "rows", "parts"),
    [
        (64, 20, 1),
        (64, 10, 2),
        (65, 10, 2),  # the second part has one image fewer
        (64, 6, 4),
        (31, 20, 1),
        (40, 10, 2),  # each block has sixteen turns at least
        (64, 26, 1),  # more than the machine has at once
    ],
)
def test_there_are_parts_for_as_many_blocks_as_walk_at_once(
    images: int, rows: int, parts: int
) -> None:
    made = str(walk_images(away(tensor(DataType.Float, images, rows, 512)), machine(FEW)))
    assert f"f32[i{parts * rows}, r{-(-images // parts)}, i512] = sum(" in made


X, Y = tensor(DataType.Float, *SHAPE), tensor(DataType.Float, 64, 40, 512)
SHORT = tensor(DataType.BFloat16, 64, 40, 256)
LEFT = {
    "sums of each image beside it": away(Y, total(Y, 0), total(Y, 0, 1), total(Y, 1)),
    "no sum along rows": Fusion((X,), (total(X, 0), total(X, 0, 1))),
    "short rows": away(SHORT),
    "few images": away(tensor(DataType.Float, 15, 90, 512)),
    "rows of several blocks": away(tensor(DataType.Float, 32, 4, 65536)),
    "rows that begin in any lane": away(tensor(DataType.Float, 64, 20, 513)),
}


@pytest.mark.parametrize("case", LEFT)
def test_others_are_left(case: str) -> None:
    assert walk_images(LEFT[case], machine(FEW, H200.max_cluster)) is LEFT[case]


def of_groups(x: TensorView, groups: int) -> Fusion:
    """Parts of rows less their sums, and the sums of whole columns: gradients of a grouped norm."""
    rows, columns = x.shape
    parts = reshape(x, rows, groups, columns // groups)
    (left,) = away(parts, total(x, 0)).outputs[:1]
    return Fusion((x,), (left, total(x, 0)))


@pytest.mark.parametrize(("multiprocessors", "parts"), [(FEW, 6), (132, 198)])
def test_groups_of_a_row_are_walked_in_as_many_parts_as_there_are_blocks(
    multiprocessors: int, parts: int
) -> None:
    made = str(
        walk_images(of_groups(tensor(DataType.Float, 33 * 512, 2048), 4), machine(multiprocessors))
    )
    assert f"f32[i{parts * 4}, r{-(-33 * 512 // parts)}, i512] = sum(" in made


def test_a_small_plane_is_left() -> None:
    program = away(X)
    assert walk_images(program, machine(132)) is program


@pytest.mark.parametrize("shape", [SHAPE, (65, 10, 500)])
def test_each_row_is_walked_once(shape: tuple[int, ...]) -> None:
    x = torch.empty(shape)
    target = replace(H200, multiprocessors=FEW)
    _, kernels = cuda_kernels(walk_images(away(*like(x)), machine(FEW)), x, target=target)
    kernel, *others = kernels
    assert isinstance(kernel, RowKernel)
    assert len(kernel.sums) == 2
    assert sorted(met(kernel.axes)) == list(range(x[..., 0].numel()))
    assert not any(isinstance(k, RowKernel) for k in others)


@pytest.mark.usefixtures("device", "one_multiprocessor")
@pytest.mark.parametrize("shape", [(32, 6, 512), (33, 2, 516)])
def test_the_sums_are_the_same(shape: tuple[int, ...]) -> None:
    x = whole(*shape)
    for order in ORDERS:
        check(away(*like(x)), x, options=replace(STRICT, thread_order=order))


@pytest.mark.usefixtures("device", "one_multiprocessor")
@pytest.mark.parametrize("columns", [512, 256])  # in a block each, side by side
def test_the_sums_of_groups_are_the_same(columns: int) -> None:
    x = whole(150, 3 * columns)
    for order in ORDERS:
        check(of_groups(*like(x), 3), x, options=replace(STRICT, thread_order=order))
