"""Sums over all columns of a plane whose columns are reduced too, in two stages."""

from __future__ import annotations

import re
from textwrap import dedent

import pytest

from tests.programs import chain, expand, fusion, machine, permute, total, unsqueeze
from tests.schedule.segments import floats, halves
from tests.test_beside_kernels import gradients
from tests.test_turned_image_kernels import gradients as of_turned
from thunder_fuser.analysis.layout import Layout, dense_strides
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.walk_columns import walk_columns


def below(sums: TensorView, x: TensorView, dim: int) -> TensorView:
    return call("sub", x, expand(unsqueeze(sums, dim), *x.shape))


def of_channels(*shape: int, of: str = "sum", narrow: bool = False) -> Fusion:
    x = (halves if narrow else floats)(*shape)
    others = (0, *range(2, x.ndim))
    beside = call(of, chain(x, "neg"), dims=others)
    return fusion([x], below(total(x, 1), x, 1), beside)


def test_channels_are_summed_by_columns_dealt_to_blocks() -> None:
    assert str(walk_columns(of_channels(256, 64, 196), {}, machine(4))) == dedent("""\
        fusion(T0: f32[i256, i64, i196]) {
          T1: f32[i256, i196, i64] = permute(T0, dims=[0, 2, 1])
          T2: f32[i256, i196, r64] = sum(T1, dims=[2])
          T3: f32[i256, b1, i196] = broadcast(T2, is_broadcast_dim=[False, True, False])
          T4: f32[i256, b64, i196] = expand(T3, shape=[256, 64, 196])
          T5: f32[i256, i64, i196] = sub(T0, T4)
          T6: f32[i256, i64, i196] = neg(T0)
          T7: f32[i256, i196, i64] = permute(T6, dims=[0, 2, 1])
          T8: f32[i50176, i64] = reshape(T7, new_shape=[50176, 64])
          T9: f32[i49, i8, i128, i64] = reshape(T8, new_shape=[49, 8, 128, 64])
          T10: f32[i8, i49, i128, i64] = permute(T9, dims=[1, 0, 2, 3])
          T11: f32[i8, r49, r128, i64] = sum(T10, dims=[1, 2], walked=50176)
          T12: f32[r8, i64] = sum(T11, dims=[0])
          return T5, T12
        }""")


def test_some_have_none_in_the_last_turn_where_no_number_of_blocks_divides_the_columns() -> None:
    made = str(walk_columns(of_channels(333, 64, 196), {}, machine(4)))
    assert "pad(T8, 0, pad_widths=[0, 0, 0, 268])" in made
    assert "reshape(T9, new_shape=[32, 16, 128, 64])" in made
    assert "dims=[1, 2], walked=65268)" in made


def test_columns_of_each_sample_are_dealt_to_blocks_of_its_own() -> None:
    x = floats(64, 64, 28, 28)
    made = str(
        walk_columns(
            fusion([x], below(total(x, 1), x, 1), total(chain(x, "neg"), 2, 3)), {}, machine(4)
        )
    )
    assert "reshape(T7, new_shape=[64, 7, 1, 112, 64])" in made
    assert "f32[i64, i1, r7, r112, i64] = sum(" in made
    assert "walked=50176)" in made


def of_samples(*shape: int) -> Fusion:
    """Of halves that are only summed."""
    x = halves(*shape)
    return fusion([x], total(x, 1), total(chain(x, "neg"), 2, 3))


def test_tall_columns_of_a_sample_have_two_groups_at_least() -> None:
    made = str(walk_columns(of_samples(512, 64, 32, 32), {}, machine(4)))
    assert "new_shape=[512, 8, 2, 64, 64])" in made
    assert "dims=[1], walked=2)" in made


def test_tall_columns_that_no_part_of_a_warp_divides_have_whole_sectors() -> None:
    made = str(walk_columns(of_samples(512, 64, 28, 28), {}, machine(4)))
    assert "new_shape=[512, 1, 7, 112, 64])" in made


def test_tall_columns_stay_that_no_sectors_divide() -> None:
    given = of_samples(512, 64, 14, 28)
    assert str(walk_columns(given, {}, machine(4))) == str(given)


def test_one_image_has_rows_where_its_elements_wait_for_their_sums() -> None:
    """The sums over all of its columns are of one dim as well."""
    x = floats(1, 64, 12544)
    turned = permute(x, 0, 2, 1)
    beside = total(chain(turned, "neg"), 1)
    program = fusion([x], beside, below(total(turned, 2), turned, 2))
    assert "dims=[1, 2], walked=12544)" in str(walk_columns(program, {}, machine(4)))


@pytest.mark.parametrize(("rows", "across"), [(33, 32), (64, 32), (128, 16), (256, 8), (512, 8)])
def test_blocks_have_more_columns_at_a_time_of_fewer_rows(rows: int, across: int) -> None:
    made = str(walk_columns(of_channels(64, rows, 2048), {}, machine(4)))
    assert f", i{4 * across}, i{rows}] = reshape(" in made


def test_rows_that_lie_apart_are_dealt_side_by_side() -> None:
    x = floats(127, 64, 196)
    turned = permute(x, 0, 2, 1)
    found = str(
        walk_columns(
            fusion([x], below(total(turned, 2), turned, 2), total(turned, 0, 1)), {}, machine(4)
        )
    )
    assert "reshape(T7, new_shape=[4, 64, 128, 64])" in found
    assert "sum(T9, dims=[1, 2], walked=24892)" in found


def test_sums_of_what_rows_are_a_permutation_of_are_dealt_with_these() -> None:
    x = floats(61, 256, 14, 14)
    turned = permute(x, 0, 2, 3, 1)
    program = fusion([x], below(total(turned, 3), turned, 3), total(chain(x, "neg"), 0, 2, 3))
    found = str(walk_columns(program, {}, machine(4)))
    assert "T7: f32[i61, i14, i14, i256] = permute(T6, dims=[0, 2, 3, 1])" in found
    assert "dims=[1, 2], walked=11956)" in found


def test_sums_of_another_permutation_stay() -> None:
    """Of the same sizes."""
    x = floats(64, 64, 64, 64)
    turned = permute(x, 0, 2, 3, 1)
    program = fusion([x], below(total(turned, 3), turned, 3), total(chain(x, "neg"), 0, 1, 3))
    assert walk_columns(program, {}, machine(4)) is program


def rows_side_by_side() -> Fusion:
    x = floats(4096, 64)
    return fusion([x], below(total(x, 1), x, 1), total(x, 0))


def few_rows() -> Fusion:
    """Sums of rows that are read by all of a row: those down the columns are not."""
    x = floats(480, 1024)
    return fusion([x], total(chain(x, "neg"), 0), below(total(x, 1), x, 1))


def what_columns_wait_for() -> Fusion:
    x = floats(64, 64, 196)
    left = call("sub", x, expand(unsqueeze(unsqueeze(total(x, 0, 2), 0), 2), *x.shape))
    return fusion([x], below(total(left, 1), left, 1))


KEPT = {
    "a small plane": (of_channels(2, 64, 196), 4),
    "long columns": (of_channels(8, 4096, 196), 4),
    "columns of which two sectors are too much": (of_channels(67, 1500, 1031, narrow=True), 4),
    "what has no neutral element, of columns that no number of blocks divides": (
        of_channels(61, 64, 196, of="max"),
        4,
    ),
    "rows that lie row after row": (rows_side_by_side(), 1),
    "few rows that lie row after row": (few_rows(), 1),
    "sums that columns wait for": (what_columns_wait_for(), 4),
}


@pytest.mark.parametrize("name", KEPT)
def test_other_sums_stay(name: str) -> None:
    program, multiprocessors = KEPT[name]
    assert walk_columns(program, {}, machine(multiprocessors)) is program


@pytest.mark.parametrize(
    ("shape", "groups"),
    [
        ((2674, 512, 49), 128),  # all places of an image, one image after another
        ((2674, 500, 49), None),  # rows of a place are no whole accesses
        ((668, 512, 196), None),  # no block holds an image
    ],
    ids=str,
)
def test_images_of_which_a_plane_is_turned_pass_through_slots(
    shape: tuple[int, ...], groups: int | None
) -> None:
    images, rows, places = shape
    x, y = tensor(DataType.BFloat16, *shape), tensor(DataType.BFloat16, images, places, rows)
    found = str(walk_columns(of_turned(x, y), {}, machine(132, 8)))
    dealt = re.findall(rf"new_shape=\[\d+, (\d+), {places}, {rows}\]", found)
    assert {*dealt} == ({str(groups)} if groups else set())


@pytest.mark.parametrize(("order", "is_dealt"), [((0, 1, 2), False), ((0, 2, 1), True)], ids=str)
def test_memory_tells_whether_a_plane_is_turned(order: tuple[int, ...], is_dealt: bool) -> None:
    """So many rows no block keeps then."""
    x, y = tensor(DataType.BFloat16, 64, 1500, 784), tensor(DataType.BFloat16, 64, 784, 1500)
    program, layout = of_turned(x, y), Layout(y.shape, dense_strides(y.shape, order))
    assert (walk_columns(program, {y: layout}, machine(132, 8)) is not program) == is_dealt


def test_images_that_blocks_of_a_cluster_keep_are_a_group_each() -> None:
    made = str(walk_columns(of_channels(333, 64, 196), {}, machine(4, 8)))
    assert "reshape(T8, new_shape=[1, 333, 196, 64])" in made
    assert "dims=[1, 2], walked=65268)" in made
    assert "pad" not in made


@pytest.mark.parametrize(
    ("shape", "narrow"),
    [
        ((333, 64, 196), True),  # twice the instructions for as many bytes
        ((333, 64, 784), False),  # long rows
        ((11, 64, 196), False),  # few images
        ((999, 40, 49), False),  # small ones
        ((333, 2048, 49), False),  # and large ones: long columns are not walked
    ],
    ids=str,
)
def test_other_images_are_walked_by_lines(shape: tuple[int, ...], narrow: bool) -> None:
    made = str(walk_columns(of_channels(*shape, narrow=narrow), {}, machine(4, 8)))
    assert f"new_shape=[1, {shape[0]}, {shape[2]}, {shape[1]}]" not in made


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((57, 768, 1517), "13, 57, 120, 768"),  # 30 clusters of eight blocks: 27 of them twice
        ((64, 2048, 196), "7, 56, 32, 2048"),
        ((128, 1024, 196), "13, 62, 32, 1024"),  # 62 of four
    ],
    ids=str,
)
def test_clusters_have_as_many_groups_as_are_on_the_machine_or_twice_that(
    shape: tuple[int, ...], sizes: str
) -> None:
    x, y = (tensor(DataType.BFloat16, *shape) for _ in range(2))
    made = str(walk_columns(gradients(x, y, 1), {}, machine(132, 8)))
    assert f"new_shape=[{sizes}]" in made


def test_odd_images_have_whole_tiles_each() -> None:
    made = str(walk_columns(of_channels(57, 1152, 1517, narrow=True), {}, machine(132, 8)))
    assert "pad_widths=[0, 0, 0, 43, 0, 0]" in made  # 13 tiles of 120 columns
    assert re.search(r"reshape\(T\d+, new_shape=\[\d+, \d+, 120, 1152\]\)", made)
    assert "dims=[1, 2], walked=86469)" in made


def test_rows_are_what_lies_side_by_side_where_no_element_waits_for_a_sum() -> None:
    """Sums of both kinds, whichever comes first: `split_reductions` walks the rows."""
    x = halves(1335, 50257)
    sums = fusion([x], total(x, 0), total(x, 1))
    assert walk_columns(sums, {}, machine(132, 8)) is sums
