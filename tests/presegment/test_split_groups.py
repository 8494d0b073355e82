"""Which sums of groups are taken in pieces."""

from __future__ import annotations

from tests.programs import ordered
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.split_groups import MIN_TERMS, SIZE, split_groups


def summed(terms: int, skip: int = -1) -> tuple[Fusion, TensorView]:
    """A sum of groups of an index, and its keys in order."""
    x, index = tensor(DataType.BFloat16, terms, 24), tensor(DataType.Int, terms)
    order, keys, ends = ordered(index, 9)
    return Fusion((x, index), (call("group_sum", x, order, ends, dim=0, skip=skip),)), keys


def test_a_long_order_is_split() -> None:
    fusion, keys = summed(MIN_TERMS, skip=3)
    (made,) = split_groups(fusion).outputs
    assert made.definition is not None
    assert made.definition.op.name == "group_sum_of_pieces"
    *_, pieces = made.definition.tensors
    assert pieces.definition is not None
    assert pieces.definition.op.name == "group_pieces"
    assert pieces.definition.tensors[2] is keys
    assert pieces.shape == (MIN_TERMS // SIZE, 24)
    assert pieces.dtype is DataType.Float
    assert made.dtype is DataType.BFloat16
    assert [e.attr("skip") for e in (made.definition, pieces.definition)] == [3, 3]
    assert [e.attr("size") for e in (made.definition, pieces.definition)] == [SIZE, SIZE]


def test_a_short_order_is_left() -> None:
    fusion, _ = summed(MIN_TERMS - 1)
    assert split_groups(fusion) is fusion


def test_ends_of_unknown_keys_are_left() -> None:
    x, order = tensor(DataType.Float, MIN_TERMS, 24), tensor(DataType.Int, MIN_TERMS)
    ends = tensor(DataType.Int, 9)
    made = call("group_sum", x, order, ends, dim=0, skip=-1)
    fusion = Fusion((x, order, ends), (made,))
    assert split_groups(fusion) is fusion
