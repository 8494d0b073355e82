"""What is computed where it is used: integers that follow element by element from memory."""

from __future__ import annotations

import pytest

from tests.programs import chain, reshape, stop, total
from tests.schedule.segments import integers
from thunder_fuser.analysis.elementwise import is_elementwise
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.scalar import constant
from thunder_fuser.ir.tensor import TensorView

INDEX = integers(6, 10)


def cast(tv: TensorView, dtype: DataType) -> TensorView:
    return call("cast", tv, dtype=dtype)


def test_inputs_and_what_is_computed_of_their_elements() -> None:
    assert is_elementwise(INDEX)
    assert is_elementwise(chain(reshape(chain(INDEX, "neg"), 60), "neg"))
    assert is_elementwise(call("in_range", INDEX, constant(9)))


def test_places() -> None:
    """Of pairs, as the last token of each sequence is at."""
    count = call("iota", constant(0), constant(1), length=(constant(60),), dtype=DataType.Int)
    assert is_elementwise(call("add", call("mul", count, constant(9)), reshape(INDEX, 60)))


@pytest.mark.parametrize("made", [total(INDEX, 1), stop(INDEX), cast(INDEX, DataType.Float)])
def test_what_takes_more_is_read_from_memory(made: TensorView) -> None:
    follows = cast(made, DataType.Int)
    assert not is_elementwise(follows)
    assert is_elementwise(follows, {made})
