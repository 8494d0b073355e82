"""Which sums of pieces are what they join."""

from __future__ import annotations

import pytest
import torch

from tests.programs import STRICT, fusion, like, pad, piece, run
from tests.schedule.segments import floats
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.join_pads import join_pads
from thunder_fuser.runtime.evaluate import evaluate


def rolled_back(x: TensorView, by: int) -> TensorView:
    """The gradient of a roll along the last dim."""
    size = x.shape[-1]
    last, first = piece(x, 1, size - by, size), piece(x, 1, 0, size - by)
    return call("add", pad(last, [0, size - by]), pad(first, [by, 0]))


@pytest.mark.parametrize("swapped", [False, True])
def test_the_gradient_of_a_roll_is_a_roll(swapped: bool) -> None:
    x0 = torch.randn(3, 8)
    (x,) = like(x0)
    made = rolled_back(x, 3)
    assert made.definition is not None
    left, right = made.definition.tensors
    written = fusion([x], call("add", right, left) if swapped else made)
    found = join_pads(written)
    assert "cat" in str(found)
    assert "pad" not in str(found)
    torch.testing.assert_close(evaluate(found, [x0]), evaluate(written, [x0]), rtol=0, atol=0)


def test_pieces_are_joined_before_they_are_widened() -> None:
    x = floats(3, 8)
    low, high = (call("cast", piece(x, 1, *ends), dtype=DataType.Half) for ends in ((0, 3), (3, 8)))
    wide = [call("cast", tv, dtype=DataType.Float) for tv in (pad(low, [0, 5]), pad(high, [3, 0]))]
    assert "f16[i3, i8] = cat" in str(join_pads(fusion([x], call("add", *wide))))


@pytest.mark.parametrize(
    ("left", "right", "value"),
    [([0, 5], [4, 0], 0.0), ([1, 4], [3, 0], 0.0), ([0, 5], [3, 0], 1.0)],
    ids=["a gap", "both at one place", "not zeros"],
)
def test_others_stay(left: list[int], right: list[int], value: float) -> None:
    x, y = floats(3, 3), floats(3, 8 - right[0])
    written = fusion([x, y], call("add", pad(x, left, value), pad(y, right, value)))
    assert join_pads(written) is written


def test_a_cast_that_changes_a_piece_stays() -> None:
    x0, y0 = torch.randn(3, 3) * 9, torch.randn(3, 5)
    x, y = like(x0, y0)
    whole = call("cast", pad(x, [0, 5]), dtype=DataType.Int)
    written = fusion([x, y], call("add", whole, pad(y, [3, 0])))
    assert join_pads(written) is written


def test_pieces_that_are_moved_along_other_dims_too_stay() -> None:
    x, y = floats(3, 3), floats(3, 5)
    written = fusion([x, y], call("add", pad(x, [0, 5, 1, -1]), pad(y, [3, 0])))
    assert join_pads(written) is written


@pytest.mark.usefixtures("device")
def test_strict_adds_the_zeros_as_the_trace_does() -> None:
    """Which make a zero below 0 one above it."""
    x0 = torch.full((3, 8), -0.0)
    (x,) = like(x0)
    (found,) = run(fusion([x], rolled_back(x, 3)), x0, options=STRICT)
    assert not found.signbit().any()
