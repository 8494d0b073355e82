"""What is the smallest value from which a reader rebuilds its own."""

from __future__ import annotations

import pytest
import torch

from tests.programs import (
    chain,
    check,
    expand,
    full,
    fusion,
    ints,
    like,
    pad,
    permute,
    piece,
    reshape,
    stop,
    unsqueeze,
)
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.segment.carry import carried, constants

pytestmark = pytest.mark.sanitizer
ON_EVERY_DEVICE = pytest.mark.usefixtures("device")


def test_free_functions_are_followed_to_the_fewest_bytes() -> None:
    (a,) = like(torch.empty(4, 6, dtype=torch.bfloat16))
    value = chain(a, "neg")
    wide = call("cast", value, dtype=DataType.Float)
    many = reshape(expand(unsqueeze(wide, 0), 5, 4, 6), 20, 6)
    assert carried(stop(many)) is value
    assert carried(pad(value, [1, 1])) is value
    assert carried(value) is value
    part = piece(value, 0, 1, 3)
    assert carried(stop(permute(part, 1, 0))).shape == (6, 2)


def test_constants_depend_on_no_data_and_draw_nothing() -> None:
    (a,) = like(torch.empty(4, 6))
    one = full(1.0, 4, 6)
    minus = chain(one, "neg")
    row = unsqueeze(minus, 0)
    wide = expand(row, 2, 4, 6)
    program = fusion([a], wide, uniform((4, 6)), call("add", a, one))
    assert constants(program) == {one, minus, row, wide}


def uniform(shape: tuple[int, ...]) -> TensorView:
    low, high, seed, offset = (sc.constant(v) for v in (0.0, 1.0, 123, 4))
    return call("uniform", low, high, seed, offset, shape=ints(shape), dtype=DataType.Float)


@ON_EVERY_DEVICE
def test_a_dropout_mask_is_drawn_again_behind_the_cut() -> None:
    x = torch.randn(6, 40)
    (a,) = like(x)
    mask = call("lt", uniform((6, 40)), sc.constant(0.5))
    middle = stop(call("where", mask, a, sc.constant(0.0)))
    plan = check(fusion([a], call("where", mask, middle, sc.constant(1.0))), x)
    assert plan.segmented.edge_bytes == 6 * 40 * 4


@ON_EVERY_DEVICE
def test_casts_on_both_sides_of_a_cut_travel_as_16_bits() -> None:
    x, y = torch.randn(6, 40, dtype=torch.bfloat16), torch.randn(6, 40)
    a, b = like(x, y)
    wide = call("cast", a, dtype=DataType.Float)
    narrow = stop(call("cast", call("mul", wide, b), dtype=DataType.BFloat16))
    again = call("cast", narrow, dtype=DataType.Float)
    plan = check(fusion([a, b], call("add", again, wide)), x, y)
    assert plan.segmented.edge_bytes == 6 * 40 * 2
