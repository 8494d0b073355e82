"""Which sums over images are made sums down the columns of rows that one block walks."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.programs import expand, like, machine, total, unsqueeze
from thunder_fuser.analysis.layout import Layout, dense_strides
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.group_rows import group_rows
from thunder_fuser.presegment.walk_short import walk_short
from thunder_fuser.runtime.evaluate import evaluate

FEW = 1  # multiprocessor, for which small planes are large
SHAPE = (8, 4, 32, 129)


def both(x: TensorView) -> Fusion:
    """Sums along the rows of images, and over the images."""
    return Fusion((x,), (total(x, x.ndim - 1), total(x, 0)))


def grouped(
    program: Fusion, multiprocessors: int = FEW, alignment: int = 16, max_cluster: int = 1
) -> Fusion:
    layouts = {
        tv: Layout(tv.shape, dense_strides(tv.shape), alignment=alignment)
        for tv in program.inputs
        if isinstance(tv, TensorView)
    }
    return group_rows(program, layouts, machine(multiprocessors, max_cluster))


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


def away(x: TensorView, *down: TensorView) -> Fusion:
    """Short rows less their sums, and `down` by default the sum over the first dim."""
    inner = expand(unsqueeze(total(x, x.ndim - 1), x.ndim - 1), *x.shape)
    return walk_short(Fusion((x,), (call("sub", x, inner), *(down or [total(x, 0)]))))


def in_stretches(program: Fusion) -> Fusion:
    """On a GPU that copies stretches of memory."""
    return grouped(program, max_cluster=8)


WINDOWS = (37, 8, 17, 17)


def test_of_short_rows_a_block_has_neighbours_of_one_image_after_the_other() -> None:
    program = away(tensor(DataType.BFloat16, *WINDOWS))
    assert str(in_stretches(program)) == dedent("""\
        fusion(T0: bf16[i37, i8, i17, i17]) {
          T1: bf16[i37, i8, i17, r17] = sum(T0, dims=[3], walked=5032)
          T2: bf16[i37, i8, i17, b1] = broadcast(T1, is_broadcast_dim=[False, False, False, True])
          T3: bf16[i37, i8, i17, b17] = expand(T2, shape=[37, 8, 17, 17])
          T4: bf16[i37, i8, i17, i17] = sub(T0, T3)
          T5: f32[i37, i8, i17, i17] = cast(T0, dtype=f32)
          T6: f32[i39, i8, i17, i17] = pad(T5, 0, pad_widths=[0, 0, 0, 0, 0, 0, 0, 2])
          T7: f32[i13, i3, i136, i17] = reshape(T6, new_shape=[13, 3, 136, 17])
          T8: f32[i3, i136, i13, i17] = permute(T7, dims=[1, 2, 0, 3])
          T9: f32[i3, i136, r13, i17] = sum(T8, dims=[2], walked=5032, sides=136)
          T10: f32[r3, i136, i17] = sum(T9, dims=[0])
          T11: bf16[i136, i17] = cast(T10, dtype=bf16)
          T12: bf16[i8, i17, i17] = reshape(T11, new_shape=[8, 17, 17])
          return T4, T12
        }""")


@pytest.mark.parametrize(
    ("shape", "summed"),
    [
        ((33, 8, 17, 17), "f32[i3, i136, r11, i17]"),
        ((15, 8, 40, 15), "f32[i2, i160, r15, i15]"),  # one part, of two stretches
        ((24, 8, 16, 16), "f32[i3, i128, r8, i16]"),
    ],
)
def test_images_that_are_dealt_evenly_are_not_padded(shape: tuple[int, ...], summed: str) -> None:
    made = str(in_stretches(away(tensor(DataType.BFloat16, *shape))))
    assert f"{summed} = sum(" in made
    assert "pad" not in made


def test_images_that_begin_inside_vectors_are_walked_together() -> None:
    """Eight of them, which are several parts where these are summed."""
    made = str(in_stretches(away(tensor(DataType.BFloat16, 64, 3, 17, 17))))
    assert "f32[i3, i136, r8, i17] = sum(" in made
    assert "f32[r8, i51, i17] = sum(" in made


@pytest.mark.parametrize("images", [392, 391, 385])
def test_images_together_are_padded_together(images: int) -> None:
    x = torch.randint(-3, 4, (images, 3, 17, 17)).bfloat16()
    program = away(*like(x))
    made = grouped(program, multiprocessors=8, max_cluster=8)
    assert "f32[i432, i3, i17, i17] = pad(" in str(made)
    for found, wanted in zip(evaluate(made, [x]), evaluate(program, [x]), strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize(
    ("images", "summed"), [(36, "[i3, i136, r12, i17]"), (37, "[i1, i136, r37, i17]")]
)
def test_what_no_padding_leaves_as_it_is_is_dealt_evenly(images: int, summed: str) -> None:
    x = tensor(DataType.BFloat16, images, 8, 17, 17)
    made = str(in_stretches(away(x, call("max", x, dims=(0,)))))
    assert f"{summed} = max(" in made
    assert "pad" not in made


W = tensor(DataType.BFloat16, *WINDOWS)
SHORT = {
    "no engine that copies stretches": (W, 16, 1),
    "rows that begin anywhere": (W, 2, 8),
    "too few images": (tensor(DataType.BFloat16, 7, 8, 40, 31), 16, 8),
    "doubles": (tensor(DataType.Double, 64, 8, 15, 15), 16, 8),
    "a small plane": (tensor(DataType.BFloat16, 16, 8, 17, 17), 16, 8),
}


@pytest.mark.parametrize("case", SHORT)
def test_other_short_rows_are_left(case: str) -> None:
    x, alignment, max_cluster = SHORT[case]
    program = away(x)
    assert grouped(program, FEW, alignment, max_cluster) is program


@pytest.mark.parametrize("strides", [(8 * 17 * 24, 17 * 24, 24, 1), (0, 17 * 17, 17, 1)])
def test_short_rows_that_lie_apart_or_are_expanded_are_left(strides: tuple[int, ...]) -> None:
    program = away(W)
    assert (
        group_rows(program, {W: Layout(W.shape, strides, alignment=16)}, machine(FEW, 8)) is program
    )


def test_more_sums_than_registers_hold_are_left() -> None:
    sums = [total(tv, 0) for tv in (W, call("mul", W, W), call("neg", W))]
    program = away(W, *sums)
    assert in_stretches(program) is program
    assert str(in_stretches(away(W, *sums[:2]))).count("sides=136") == 2


@pytest.mark.parametrize(
    "shape", [WINDOWS, (15, 8, 40, 15), (24, 8, 16, 16), (5, 7, 8, 17, 17), (64, 3, 17, 17)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_sums_of_stretches_are_the_same(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.randint(-3, 4, shape).to(dtype)
    (source,) = like(x)
    program = away(source, total(source, *range(x.ndim - 3)))
    made = in_stretches(program)
    assert "sides=" in str(made)
    for found, wanted in zip(evaluate(made, [x]), evaluate(program, [x]), strict=True):
        assert torch.equal(found, wanted)
