"""Rows are reduced without a few elements that were joined to them."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.programs import cat, chain, fusion, pad, piece, total
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.presegment.reduce_pieces import reduce_pieces

x = tensor(DataType.Float, 8, 256)
k = tensor(DataType.Float, 8, 1)
one, both = tensor(DataType.Float, 8, 257), cat(x, k)


def test_what_was_joined_is_reduced_apart_and_never_joined() -> None:
    made = chain(both, "exp")
    found = reduce_pieces(fusion([x, k], total(made, 1), piece(made, 1, 0, 256)))
    assert str(found) == dedent("""\
        fusion(T0: f32[i8, i256], T1: f32[i8, b1]) {
          T2: f32[i8, i256] = exp(T0)
          T3: f32[i8, r256] = sum(T2, dims=[1])
          T4: f32[i8, b1] = exp(T1)
          T5: f32[i8, r1] = sum(T4, dims=[1])
          T6: f32[i8] = add(T3, T5)
          return T6, T2
        }""")


def test_extrema_and_pieces_at_both_ends() -> None:
    found = str(reduce_pieces(fusion([x, k], call("max", cat(k, x, k), dims=(1,)))))
    assert "cat" not in found
    assert found.count("maximum(") == 2


def test_the_gradient_of_what_was_dropped_is_a_pad() -> None:
    terms = call("mul", chain(both, "exp"), pad(x, [0, 1]))
    found = str(reduce_pieces(fusion([x, k], total(terms, 1))))
    assert "cat" not in found
    assert found.count("sum(") == 2


@pytest.mark.parametrize(("columns", "is_apart"), [(8, False), (9, True), (17, True)])
def test_short_rows_are_if_a_thread_does_not_combine_them_anew(
    columns: int, is_apart: bool
) -> None:
    short, sink = tensor(DataType.Float, 64, columns), tensor(DataType.Float, 64, 1)
    found = str(reduce_pieces(fusion([short, sink], total(cat(short, sink), 1))))
    assert ("cat" not in found) == is_apart


many = tensor(DataType.Float, 8, 9)
high, side = tensor(DataType.Float, 40, 256), tensor(DataType.Float, 40, 1)
SAME: dict[str, Fusion] = {
    "nothing was joined": fusion([one], total(one, 1)),
    "of two halves": fusion([x], total(cat(x, x), 1)),
    "more than a few": fusion([x, many], total(cat(x, many), 1)),
    "stored whole": fusion([x, k], total(both, 1), chain(both, "exp")),
    "along another dim": fusion([x, k], total(cat(both, one, dim=0), 1)),
    "of halves of a byte": fusion([x, k], total(call("cast", both, dtype=DataType.Half), 1)),
    "other pieces": fusion([x, k], total(both, 1), total(cat(k, x), 1)),
    "a running sum": fusion([x, k], call("cumsum", both, dim=1, reverse=False)),
    "down columns as well": fusion([high, side], *(total(cat(high, side), d) for d in (0, 1))),
}


@pytest.mark.parametrize("name", SAME)
def test_others_stay(name: str) -> None:
    assert reduce_pieces(SAME[name]) is SAME[name]
