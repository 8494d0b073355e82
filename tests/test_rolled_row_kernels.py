"""Rows that are walked behind a roll, as by the gradient of a Swin block's norm."""

from __future__ import annotations

import pytest
import torch

from tests.devices import ORDERS
from tests.kernel.test_shifted import gradient
from tests.programs import (
    SMALL,
    check,
    cuda_kernels,
    fusion,
    like,
    machine,
    pad,
    permute,
    piece,
    reshape,
    whole,
)
from thunder_fuser.codegen.emit import emit
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.presegment.split_reductions import split_reductions

SIDE, SIZE = 15, 5  # of an image and of a window, in places


def rolled_back(x: TensorView, by: int, dim: int) -> TensorView:
    """The gradient of a roll: pieces that were filled up with zeros."""
    size, before = x.shape[dim], [0] * (2 * dim)
    end, start = piece(x, dim, size - by, size), piece(x, dim, 0, size - by)
    after = [0] * (2 * (x.ndim - dim - 1))
    return call(
        "add", pad(end, [*after, 0, size - by, *before]), pad(start, [*after, by, 0, *before])
    )


def swin(g: TensorView, w: TensorView) -> Fusion:
    columns, across = g.shape[-1], SIDE // SIZE
    tiles = reshape(g, -1, across, across, SIZE, SIZE, columns)
    image = reshape(permute(tiles, 0, 1, 3, 2, 4, 5), -1, SIDE, SIDE, columns)
    rows = reshape(rolled_back(rolled_back(image, 2, 2), 2, 1), -1, columns)
    return fusion([g, w], *gradient(rows, w))


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device", "one_multiprocessor")
@pytest.mark.parametrize("images", [5, 7])
def test_values_are_those_of_eager(images: int) -> None:
    g, w = whole(images * 9, SIZE * SIZE, 72, dtype=torch.bfloat16), whole(72)
    check(swin(*like(g, w)), g, w, orders=ORDERS)


@pytest.mark.parametrize("images", [8, 11])
def test_a_turn_loads_the_one_place_of_each_row_without_a_test(images: int) -> None:
    g, w = torch.empty(images * 9, SIZE * SIZE, 256, dtype=torch.bfloat16), torch.empty(256)
    program = split_reductions(swin(*like(g, w)), machine(4))
    _, (kernel, *_) = cuda_kernels(program, g, w, target=SMALL)
    assert isinstance(kernel, RowKernel)
    assert kernel.sums
    assert str(kernel).count(" = load T0[") == 1
    assert "tf::load_if" not in emit(kernel).text
