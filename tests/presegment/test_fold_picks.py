"""Which sums an index tells the only term of, and that results stay what they are."""

from __future__ import annotations

import pytest
import torch

from tests.programs import chain, expand, fusion, like, total, unsqueeze
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.fold_picks import fold_picks
from thunder_fuser.presegment.stages import constants
from thunder_fuser.runtime.evaluate import evaluate

ROWS, CLASSES = 7, 19


def spread(tv: TensorView, dim: int) -> TensorView:
    """A number of each row, beside all places along `dim` of two."""
    shape = (ROWS, CLASSES) if dim else (CLASSES, ROWS)
    return expand(unsqueeze(tv, dim), *shape)


def hits(index: TensorView, dim: int, first: int = 0) -> TensorView:
    start, one = sc.constant(first), sc.constant(1)
    count = call("iota", start, one, length=constants([CLASSES]), dtype=DataType.Int)
    places = call("broadcast", count, is_broadcast_dim=tuple(d != dim for d in range(2)))
    return call("eq", spread(index, dim), places)


def picked(index: TensorView, value: TensorView, dim: int, first: int = 0) -> TensorView:
    return total(call("where", hits(index, dim, first), value, sc.constant(0.0)), dim)


@pytest.mark.parametrize("dim", [0, 1])
def test_a_value_of_each_row_is_selected(dim: int) -> None:
    """Also where the index is that of no place."""
    x, index = torch.randn(ROWS), torch.tensor([0, 18, -1, 5, 19, -100, 7])
    a, i = like(x, index)
    pick = picked(i, spread(chain(a, "neg"), dim), dim)
    beside = call("max", expand(unsqueeze(a, dim), *hits(i, dim).shape), dims=(dim,))
    written = fusion([a, i], pick, beside)
    made = fold_picks(written)
    assert "sum(" not in str(made)
    for found, expected in zip(*(evaluate(f, [x, index]) for f in (made, written)), strict=True):
        assert torch.equal(found, expected)
    alone = fusion([a, i], pick)
    assert fold_picks(alone) is alone


def test_others_stay() -> None:
    """Values of each element, places from another number on, and sums over the rows."""
    x, y, index = (
        torch.randn(ROWS),
        torch.randn(ROWS, CLASSES),
        torch.zeros(ROWS, dtype=torch.int64),
    )
    a, b, i = like(x, y, index)
    one = call("where", hits(i, 1), spread(a, 1), sc.constant(0.0))
    others = picked(i, b, 1), picked(i, spread(a, 1), 1, first=1), total(one, 0), total(one, 0, 1)
    beside = [call("max", b, dims=(dim,)) for dim in (0, 1)]
    for value in others:
        assert fold_picks(Fusion((a, b, i), (value, *beside))).outputs[0] is value
