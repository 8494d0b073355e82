"""A choice between two sums of what many elements share: printed IR, and values."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.programs import check, expand, fusion, like, unsqueeze
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.options import Options
from thunder_fuser.presegment.choose_sums import choose_sums

COUNT = 33


def inputs(columns: int = COUNT) -> list[torch.Tensor]:
    return [torch.randn(5), torch.randn(5), torch.rand(5, columns) < 0.5]


def program(*, cast: bool = False, shared: bool = True, one: float = 1.0) -> Fusion:
    """always + number * other, with numbers that are `one` or 0."""
    a, b, mask = like(*inputs())
    rows = [expand(unsqueeze(tv, 1), 5, COUNT) for tv in (a, b)]
    zero = sc.constant(0.0)
    number = mask if cast else call("where", mask, sc.constant(one), zero)
    number = call("cast", number, dtype=DataType.Float)
    other = rows[1] if shared else call("mul", rows[1], number)
    return fusion([a, b, mask], call("add", call("mul", number, other), rows[0]))


@pytest.mark.parametrize("cast", [False, True])
def test_one_of_two_sums_is_chosen(cast: bool) -> None:
    found = choose_sums(program(cast=cast))
    assert str(found) == dedent("""\
        fusion(T0: f32[i5], T1: f32[i5], T2: bool[i5, i33]) {
          T3: f32[i5, b1] = broadcast(T0, is_broadcast_dim=[False, True])
          T4: f32[i5, b33] = expand(T3, shape=[5, 33])
          T5: f32[i5, b1] = broadcast(T1, is_broadcast_dim=[False, True])
          T6: f32[i5, b33] = expand(T5, shape=[5, 33])
          T7: f32[i5, b33] = add(T4, T6)
          T8: f32[i5, i33] = where(T2, T7, T4)
          return T8
        }""")


@pytest.mark.parametrize("fusion", [program(shared=False), program(one=2.0)])
def test_other_sums_stay(fusion: Fusion) -> None:
    assert choose_sums(fusion) is fusion


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("strict", [False, True])
def test_chosen_sums_have_the_same_bits(strict: bool) -> None:
    check(program(), *inputs(), options=Options(strict=strict))


@pytest.mark.usefixtures("device")
def test_strict_makes_nan_of_0_times_infinity() -> None:
    a, b, mask = inputs()
    b[0] = float("inf")
    check(program(), a, b, mask, options=Options(strict=True))


def test_what_is_shared_may_be_made_of_a_number_without_dims() -> None:
    given = [*inputs(), torch.randn(())]
    a, b, mask, scale = like(*given)
    rows = [call("mul", expand(unsqueeze(tv, 1), 5, COUNT), scale) for tv in (a, b)]
    number = call("cast", mask, dtype=DataType.Float)
    made = fusion([a, b, mask, scale], call("add", rows[0], call("mul", number, rows[1])))
    assert "where(T2, " in str(choose_sums(made))
    check(made, *given, options=Options())
