"""Which short reductions are marked for blocks to walk, and with the rows of which plane."""

from __future__ import annotations

import pytest

from tests.programs import chain, expand, fusion, permute, reshape, total, unsqueeze
from tests.schedule.segments import floats
from thunder_fuser.analysis.reductions import walked_rows
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.scalar import constant
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.one_pass_variance import one_pass_variance
from thunder_fuser.presegment.walk_short import walk_short


def below(x: TensorView, sums: TensorView, dim: int) -> TensorView:
    return call("sub", x, expand(unsqueeze(sums, dim), *x.shape))


def marks(program: Fusion) -> list[int | None]:
    """The rows with which each reduction is marked."""
    found = walk_short(program).tensors
    return [walked_rows(tv) for tv in found if any(a.is_reduction for a in tv.domain.logical)]


@pytest.mark.parametrize(
    ("shape", "dim", "rows"),
    [
        ((16, 21, 8, 8), 1, 336),  # channels, of planes of 64
        ((4096, 16), 1, 4096),  # rows
        ((32, 4096), 0, 32),  # columns
        ((64, 9, 1), 1, 64),
    ],
)
def test_what_its_own_elements_need_is_marked(shape: tuple[int, ...], dim: int, rows: int) -> None:
    x = floats(*shape)
    assert marks(fusion([x], below(x, total(x, dim), dim))) == [rows]


@pytest.mark.parametrize(("dims", "rows"), [((0,), 4096), ((0, 1), 4096), ((1,), None)])
def test_what_sums_over_other_axes_need_is_marked(dims: tuple[int, ...], rows: int | None) -> None:
    x = floats(4096, 16)
    sums = total(below(x, call("max", x, dims=(1,)), 1), *dims)
    assert marks(fusion([x], sums))[0] == rows


def test_what_is_read_for_a_plane_that_is_stored_is_marked() -> None:
    """As the gradient of positions is, beside that of what they were added to."""
    x, y = floats(16, 512, 64), floats(16, 512, 64)
    product = call("mul", x, y)
    assert marks(fusion([x, y], product, total(product, 0))) == [16]
    assert marks(fusion([x, y], chain(x, "neg"), total(y, 0))) == [None]


def test_every_level_is_marked() -> None:
    x = floats(64, 12)
    left = below(x, call("max", x, dims=(1,)), 1)
    shares = call("div", left, expand(unsqueeze(total(chain(left, "exp"), 1), 1), 64, 12))
    assert marks(fusion([x], shares)) == [64, 64]


@pytest.mark.parametrize("terms", [8, 33])
def test_few_terms_are_combined_anew_and_many_are_walked_anyway(terms: int) -> None:
    x = floats(64, terms)
    program = fusion([x], below(x, total(x, 1), 1))
    assert walk_short(program) is program


def test_a_result_that_only_smaller_ones_need_is_a_threads() -> None:
    x, y = floats(64, 16), floats(64)
    program = fusion([x, y], call("add", y, total(x, 1)), total(chain(total(x, 1), "exp"), 0))
    assert walk_short(program) is program


def test_axes_that_lie_apart_are_a_threads() -> None:
    """Squares of 4 x 4 elements of an image."""
    x = floats(3, 6, 4, 6, 4)
    means = expand(reshape(total(x, 2, 4), 3, 6, 1, 6, 1), *x.shape)
    program = fusion([x], call("sub", x, means))
    assert walk_short(program) is program


def test_complex_numbers_are_a_threads() -> None:
    x = tensor(DataType.ComplexFloat, 64, 16)
    program = fusion([x], below(x, total(x, 1), 1))
    assert walk_short(program) is program


def test_a_variance_of_columns_that_are_kept_has_two_phases() -> None:
    x = floats(4, 16, 100)
    mean = call("truediv", total(x, 1), constant(16))
    away = below(x, mean, 1)
    variance = total(call("mul", away, away), 1)
    program = walk_short(fusion([x], below(away, variance, 1)))
    found = one_pass_variance(program, lambda tv: False)
    assert "squared_deviation" not in str(found)
    assert marks(found) == [64, 64]


def test_what_is_read_across_memory_is_marked_as_it_lies() -> None:
    x = floats(64, 100, 12)
    turned = permute(x, 0, 2, 1)
    assert marks(fusion([x], below(turned, total(turned, 1), 1))) == [64 * 12]


def test_a_gather_waits_for_the_place_that_one_makes() -> None:
    x, choices = floats(9, 400), tensor(DataType.Int, 9, 400)
    place = unsqueeze(call("fmod", total(choices, 0), constant(9)), 0)
    picked = call("take_along_axis", x, place, dim=0)
    found = walk_short(fusion([x, choices], below(x, reshape(picked, 400), 0)))
    assert "walked=9" in str(found)
    assert str(found).count("segment_set") == 1
