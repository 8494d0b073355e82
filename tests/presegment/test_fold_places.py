"""Which places of the largest shares are those of the largest elements."""

from __future__ import annotations

import pytest
import torch

from tests.presegment.test_one_pass_exponentials import below, guarded, softmax, top
from tests.programs import like, total
from tests.schedule.segments import floats
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.fold_places import fold_places
from thunder_fuser.presegment.stages import constants
from thunder_fuser.runtime.evaluate import evaluate

LAST = sc.constant(2**32 - 1)


def place(x: TensorView, dim: int = 1) -> TensorView:
    """As `frontend/extrema.py` finds it."""
    count = call(
        "iota",
        sc.constant(0),
        sc.constant(1),
        length=constants([x.shape[dim]]),
        dtype=DataType.Int,
    )
    index = call("broadcast", count, is_broadcast_dim=tuple(k != dim for k in range(2)))
    key = call("mul", call("order_key", x), sc.constant(2**32))
    best = call("max", call("add", key, call("sub", LAST, index)), dims=(dim,))
    return call("sub", LAST, call("bitwise_and", best, LAST))


def test_the_largest_share_is_where_the_largest_element_is() -> None:
    x = floats(8, 90)
    made = fold_places(Fusion((x,), (place(softmax(x, 1)),)))
    assert [tv.expr.op.name for tv in made.tensors if tv.dtype.is_integral] == [
        *("iota", "broadcast", "where", "min", "cast")
    ]
    assert "sum(" not in str(made)


@pytest.mark.parametrize("dim", [0, 1])
def test_places_are_those_of_the_shares(dim: int) -> None:
    """The first of several that are equal, and of rows without numbers."""
    x = 30 * torch.randn(9, 40)
    x[2], x[3], x[4], x[5, 7] = -torch.inf, 2.0, torch.nan, torch.nan
    x[6, 3], x[7] = -torch.inf, torch.round(x[7] / 30)
    (a,) = like(x)
    written = Fusion((a,), (place(softmax(a, dim), dim), place(below(a, top(a, dim), dim), dim)))
    made = fold_places(written)
    assert "order_key" not in str(made)
    for found, expected in zip(evaluate(made, [x])[1], evaluate(written, [x])[1], strict=True):
        assert torch.equal(found, expected)


def test_others_stay() -> None:
    x, y = floats(8, 90), floats(8, 90)
    shares = softmax(x, 1)
    rounded = call("cast", call("cast", shares, dtype=DataType.Half), dtype=DataType.Float)
    rests = call("exp", call("sub", x, call("expand", guarded(x), shape=constants([8, 90]))))
    others = [place(x), place(rounded), place(call("mul", shares, y)), place(shares, 0)]
    others += [place(rests, 0), place(call("div", shares, y)), total(shares, 1)]
    for value in others:
        assert fold_places(Fusion((x, y), (value,))).outputs == (value,)
