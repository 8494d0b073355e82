"""Which rows lie as a result that turns them has them."""

from __future__ import annotations

import pytest
import torch

from tests.devices import ORDERS
from tests.programs import check, expand, fusion, like, plan_of, reshape, total, unsqueeze
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.lay_results import lay_results

BATCH, HEADS, TOKENS, WIDTH = 2, 3, 5, 40


def turned(x: TensorView) -> TensorView:
    """Heads of tokens as rows of all heads."""
    rows = call("permute", x, dims=(0, 2, 1, 3))
    return reshape(rows, x.shape[0], x.shape[2], x.shape[1] * x.shape[3])


def below(x: TensorView) -> TensorView:
    """Rows less their sums."""
    return call("sub", x, expand(unsqueeze(total(x, 3), 3), *x.shape))


def program(x: TensorView) -> Fusion:
    return fusion([x], turned(below(x)))


def test_rows_lie_as_the_result_has_them() -> None:
    made = lay_results(program(tensor(DataType.Float, BATCH, HEADS, TOKENS, WIDTH)))
    (root,) = [tv for tv in made.tensors if tv.definition and tv.definition.op.name == "sub"]
    assert [root.logical.index(a) for a in root.domain.allocation] == [0, 2, 1, 3]


X = tensor(DataType.Float, BATCH, HEADS, TOKENS, WIDTH)
LEFT = {
    "no rows": fusion([X], turned(call("exp", X))),
    "an argument": fusion([X], turned(X), total(X, 3)),
    "a result": fusion([X], r := below(X), turned(r)),
    "in its order": fusion([X], reshape(below(X), BATCH * HEADS, TOKENS * WIDTH)),
    "turned rows": fusion([X], call("permute", below(X), dims=(0, 1, 3, 2))),
}


@pytest.mark.parametrize("case", LEFT)
def test_others_lie_as_they_did(case: str) -> None:
    assert lay_results(LEFT[case]) is LEFT[case]


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
def test_turned_rows_are_one_launch() -> None:
    x = torch.randint(-4, 5, (BATCH, HEADS, TOKENS, WIDTH)).float()
    given = program(*like(x))
    assert len(plan_of(given, x).segmented.segments) == 1
    check(given, x, orders=ORDERS)


def test_two_results_of_which_neither_is_made_of_the_other_lie_as_they_did() -> None:
    """Both would be views of one: in torch a reshape of turned heads is a copy of these."""
    (x,) = like(torch.randn(BATCH, HEADS, TOKENS, WIDTH))
    rows = below(x)
    heads = call("permute", rows, dims=(0, 2, 1, 3))
    apart = fusion([x], turned(rows), reshape(rows, BATCH, HEADS * TOKENS, WIDTH))
    assert lay_results(apart) is apart
    both = fusion([x], reshape(heads, BATCH, TOKENS, HEADS * WIDTH), heads)
    assert lay_results(both) is both
