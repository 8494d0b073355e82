"""Places that are checked are compared in 32 bits: printed IR, and what keeps 64."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.programs import check, expand, fusion, ints, like, unsqueeze
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.presegment.compare_places import compare_places


def one_hot(limit: int = 7, first: int = 0, *, checked: bool = True) -> Fusion:
    """Of 5 indices below 7."""
    (index,) = like(torch.empty(5, dtype=torch.int64))
    places = call("iota", *ints([first, 1]), length=ints([7]), dtype=DataType.Int)
    place = call("in_range", index, sc.constant(limit)) if checked else index
    wide = expand(unsqueeze(place, 1), 5, 7)
    return fusion([index], call("eq", expand(unsqueeze(places, 0), 5, 7), wide))


def test_places_are_compared_in_32_bits() -> None:
    assert str(compare_places(one_hot())) == dedent("""\
        fusion(T0: i64[i5]) {
          T1: i64[i7] = iota(0, 1, length=[7], dtype=i64)
          T2: i64[b1, i7] = broadcast(T1, is_broadcast_dim=[True, False])
          T3: i64[b5, i7] = expand(T2, shape=[5, 7])
          T4: i32[b5, i7] = cast(T3, dtype=i32)
          T5: i64[i5] = in_range(T0, 7)
          T6: i64[i5, b1] = broadcast(T5, is_broadcast_dim=[False, True])
          T7: i64[i5, b7] = expand(T6, shape=[5, 7])
          T8: i32[i5, b7] = cast(T7, dtype=i32)
          T9: bool[i5, i7] = eq(T4, T8)
          return T9
        }""")


@pytest.mark.parametrize(
    "fusion",
    [one_hot(limit=2**31 + 1), one_hot(first=2**31 - 3), one_hot(checked=False)],
    ids=["a limit", "places beyond it", "no limit"],
)
def test_what_may_have_more_bits_keeps_them(fusion: Fusion) -> None:
    assert compare_places(fusion) is fusion


@pytest.mark.usefixtures("device")
def test_a_one_hot_is_as_in_torch() -> None:
    check(one_hot(), torch.tensor([6, 0, 3, 3, 1]))
