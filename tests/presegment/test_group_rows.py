"""Which sums over images are made sums down the columns of rows that one block walks."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.programs import expand, like, total, unsqueeze
from thunder_fuser.analysis.layout import Layout, dense_strides
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.group_rows import group_rows
from thunder_fuser.runtime.evaluate import evaluate

FEW = 1  # multiprocessor, for which small planes are large
SHAPE = (8, 4, 32, 129)


def both(x: TensorView) -> Fusion:
    """Sums along the rows of images, and over the images."""
    return Fusion((x,), (total(x, x.ndim - 1), total(x, 0)))


def grouped(program: Fusion, multiprocessors: int = FEW, alignment: int = 16) -> Fusion:
    layouts = {
        tv: Layout(tv.shape, dense_strides(tv.shape), alignment=alignment)
        for tv in program.inputs
        if isinstance(tv, TensorView)
    }
    return group_rows(program, layouts, multiprocessors)


def test_images_come_next_to_the_row_that_they_share() -> None:
    program = both(tensor(DataType.BFloat16, *SHAPE))
    assert str(grouped(program)) == dedent("""\
        fusion(T0: bf16[i8, i4, i32, i129]) {
          T1: bf16[i8, i4, i32, r129] = sum(T0, dims=[3])
          T2: f32[i8, i4, i32, i129] = cast(T0, dtype=f32)
          T3: f32[i8, i128, i129] = reshape(T2, new_shape=[8, 128, 129])
          T4: f32[i128, i8, i129] = permute(T3, dims=[1, 0, 2])
          T5: f32[i128, r8, i129] = sum(T4, dims=[1], walked=1024)
          T6: bf16[i128, i129] = cast(T5, dtype=bf16)
          T7: bf16[i4, i32, i129] = reshape(T6, new_shape=[4, 32, 129])
          return T1, T7
        }""")


def test_several_blocks_have_some_of_the_images_where_rows_are_few() -> None:
    made = grouped(both(tensor(DataType.Float, 512, 2, 128)))
    assert "f32[i2, i2, r256, i128] = sum(" in str(made)
    assert "f32[r2, i2, i128] = sum(" in str(made)


X = tensor(DataType.BFloat16, *SHAPE)
LEFT = {
    "a sum of all rows beside it": Fusion((X,), (total(X, 3), total(X, 0), total(X, 0, 1, 2))),
    "a row that waits for it": Fusion(
        (X,),
        (total(call("sub", X, expand(unsqueeze(total(X, 0), 0), *SHAPE)), 3),),
    ),
    "no sum along rows": Fusion((X,), (total(X, 0),)),
    "long rows": both(tensor(DataType.BFloat16, 8, 16, 2048)),
    "tiny rows": both(tensor(DataType.BFloat16, 64, 32, 49)),
    "images that begin in other lanes": both(tensor(DataType.BFloat16, 8, 3, 33, 129)),
    "an odd number of images": both(tensor(DataType.BFloat16, 7, 4, 32, 129)),
    "a small plane": both(tensor(DataType.BFloat16, 8, 4, 16, 64)),
}


@pytest.mark.parametrize("case", LEFT)
def test_other_sums_are_left(case: str) -> None:
    assert grouped(LEFT[case]) is LEFT[case]


def test_odd_rows_that_begin_anywhere_are_left() -> None:
    program = both(X)
    assert grouped(program, alignment=2) is program


@pytest.mark.parametrize("shape", [(8, 4, 32, 129), (512, 2, 128), (16, 128, 72)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_sums_are_the_same(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.randint(-3, 4, shape).to(dtype)
    program = both(*like(x))
    made = grouped(program)
    assert made is not program
    for found, wanted in zip(evaluate(made, [x]), evaluate(program, [x]), strict=True):
        assert torch.equal(found, wanted)
