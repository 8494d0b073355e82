"""Running sums between two flips run the other way."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.programs import chain, flip, fusion
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.presegment.fold_flips import fold_flips

x = tensor(DataType.Float, 4, 6)


def test_a_sum_between_flips_of_its_axis_runs_from_the_end() -> None:
    summed = flip(call("cumsum", flip(x, 1), dim=1, reverse=False), 1)
    assert str(fold_flips(fusion([x], summed))) == dedent("""\
        fusion(T0: f32[i4, i6]) {
          T1: f32[i4, i6] = cumsum(T0, dim=1, reverse=True)
          return T1
        }""")


def test_a_reverse_sum_runs_from_the_start_again() -> None:
    summed = flip(call("cumsum", flip(x, 1), dim=1, reverse=True), 1)
    assert "cumsum(T0, dim=1, reverse=False)" in str(fold_flips(fusion([x], summed)))


@pytest.mark.parametrize(
    "kept",
    [
        flip(call("cumsum", flip(x, 0), dim=1, reverse=False), 1),
        flip(call("cumsum", flip(x, 0, 1), dim=1, reverse=False), 0, 1),
        flip(call("cumsum", x, dim=1, reverse=False), 1),
        call("cumsum", flip(x, 1), dim=1, reverse=False),
        flip(chain(call("cumsum", flip(x, 1), dim=1, reverse=False), "neg"), 1),
    ],
)
def test_any_other_flip_stays(kept: object) -> None:
    program = fusion([x], kept)  # type: ignore[arg-type]
    assert fold_flips(program) is program
