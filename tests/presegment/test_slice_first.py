"""Planes of which equal pieces were taken behind reductions of their rows."""

from __future__ import annotations

import pytest
import torch

from tests.devices import ORDERS
from tests.programs import (
    cat,
    check,
    expand,
    fusion,
    like,
    permute,
    piece,
    reshape,
    total,
    unsqueeze,
    whole,
)
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.options import Options
from thunder_fuser.presegment.slice_first import slice_first
from thunder_fuser.runtime.evaluate import evaluate

x0, w0 = whole(8, 6, 64), whole(1, 6, 1)
x, w = like(x0, w0)


def along(row: TensorView, tv: TensorView) -> TensorView:
    return expand(unsqueeze(row, row.ndim), *tv.shape)


def low(tv: TensorView) -> TensorView:
    """What is below the largest of its row, and that by how much its sum is."""
    below = call("sub", tv, along(call("max", tv, dims=(tv.ndim - 1,)), tv))
    return call("sub", below, along(total(below, tv.ndim - 1), tv))


def halves(tv: TensorView, dim: int = 0) -> list[TensorView]:
    size = tv.shape[dim]
    return [piece(tv, dim, 0, size // 2), piece(tv, dim, size // 2, size)]


def turns(tv: TensorView, count: int) -> list[TensorView]:
    return [piece(tv, 1, k, 6, count) for k in range(count)]


def neighbours(tv: TensorView) -> list[TensorView]:
    """As differential attention takes them of its heads."""
    pairs = reshape(tv, 8, 3, 2, 64)
    return [piece(pairs, 2, k, k + 1) for k in range(2)]


def gradient(tv: TensorView) -> Fusion:
    """Of neighbours that were subtracted: a factor of theirs is of their sums, too."""
    scores, rows = reshape(tv, 8, 3, 2, 64), piece(tv, 1, 0, 6, 2)
    given = unsqueeze(rows, 2)
    both = cat(given, call("neg", given), dim=2)
    made = call("sub", both, along(total(call("mul", scores, both), 3), both))
    factor = total(call("mul", piece(scores, 2, 1, 2), given), 3)
    return fusion([x], reshape(call("mul", scores, made), 8, 6, 64), factor)


CUT: dict[str, Fusion] = {
    "halves": fusion([x], call("sub", *halves(low(x)))),
    "one of three": fusion([x], call("neg", piece(low(x), 1, 2, 4))),
    "in turns": fusion([x], call("mul", *turns(low(x), 2))),
    "three in turns": fusion([x], *(call("neg", tv) for tv in turns(low(x), 3))),
    "neighbours": fusion([x], call("sub", *neighbours(low(x)))),
    "of what was two dims": fusion(
        [x], call("sub", *halves(reshape(low(reshape(x, 48, 64)), 8, 6, 64)))
    ),
    "of what is stored": fusion([x], low(x), call("sub", *halves(low(x), 1))),
    "of what is stored in turns": fusion([x], low(x), call("sub", *turns(low(x), 2))),
    "with sums": fusion([x], total(x, 2), call("sub", *halves(along(total(x, 2), x)))),
    "a factor that repeats": fusion([x, w], call("sub", *halves(call("mul", low(x), w), 1))),
    "a gradient": gradient(x),
}


def test_halves_are_reduced_apart_and_their_sums_joined() -> None:
    sums = total(x, 2)
    found = slice_first(fusion([x], sums, call("mul", *halves(call("sub", x, along(sums, x))))))
    assert [tv.expr.op.name for tv in found.tensors[1:]] == [
        *("slice", "sum", "slice", "sum", "cat"),
        *("broadcast_in_dim", "broadcast_in_dim", "sub"),
        *("broadcast_in_dim", "broadcast_in_dim", "sub", "mul"),
    ]
    assert [tv.shape for tv in found.tensors if tv.is_of("sum", "cat")] == [(4, 6), (4, 6), (8, 6)]


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("name", CUT)
def test_each_row_is_read_once(name: str) -> None:
    assert slice_first(CUT[name]) is not CUT[name]
    given = (x0, w0)[: len(CUT[name].inputs)]
    check(CUT[name], *given, orders=ORDERS)
    plan = check(CUT[name], *given, options=Options(tune="off"))
    assert len(plan.segmented.segments) == 1


UNCUT: dict[str, Fusion] = {
    "unequal": fusion([x], *(call("neg", piece(low(x), 0, *ends)) for ends in ((0, 2), (2, 8)))),
    "along the rows": fusion([x], call("sub", *halves(low(x), 2))),
    "sums of other rows": fusion([x], total(low(x), 0, 1), call("sub", *halves(low(x)))),
    "many": fusion([x], *(call("neg", piece(low(x), 0, k, k + 1)) for k in range(8))),
    "pieces of two kinds": fusion(
        [x], call("sub", *halves(low(x))), call("sub", *halves(low(x), 1))
    ),
    "only returned": fusion([x], *halves(low(x))),
    "before they are reduced": fusion([x], *(call("neg", tv) for tv in halves(x)), total(x, 2)),
    "turned": fusion([x], call("sub", *halves(permute(low(x), 1, 0, 2)))),
    "turned and padded": fusion([x], call("sub", *halves(low(x))), cat(low(x), x, dim=0)),
}


@pytest.mark.parametrize("name", UNCUT)
def test_others_stay(name: str) -> None:
    assert slice_first(UNCUT[name]) is UNCUT[name]


def test_a_reshape_that_splits_no_dim_is_none_of_its_turns() -> None:
    x = torch.randn(256, 6, 4)
    (a,) = like(x)
    less = call("sub", a, expand(unsqueeze(total(a, 0), 0), 256, 6, 4))
    parts = reshape(less, 256, 8, 3)
    whole = fusion([a], *(call("exp", piece(parts, 2, k, k + 1)) for k in (1, 2)))
    for found, exact in zip(evaluate(slice_first(whole), (x,)), evaluate(whole, (x,)), strict=True):
        torch.testing.assert_close(found, exact)
