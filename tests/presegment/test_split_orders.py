"""Which orders are made in stages, and of what."""

from __future__ import annotations

from tests.programs import ordered
from thunder_fuser.analysis.digit_stages import LONG
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.presegment.split_groups import split_groups
from thunder_fuser.presegment.split_orders import split_orders


def summed(terms: int, count: int) -> Fusion:
    x, index = tensor(DataType.Float, terms, 24), tensor(DataType.Int, terms)
    order, _, ends = ordered(index, count)
    return Fusion((x, index), (call("group_sum", x, order, ends, dim=0, skip=-1),))


def ops_of(fusion: Fusion) -> list[str]:
    return [expr.op.name for expr in fusion.exprs]


def test_a_long_order_of_few_groups_is_one_stage() -> None:
    found = split_orders(summed(LONG, 1000))
    assert sorted(ops_of(found)) == [
        "digit_counts",
        "digit_keys",
        "digit_order",
        "group_ends",
        "group_sum",
    ]


def test_each_stage_reads_the_keys_and_the_order_of_the_one_before() -> None:
    (made,) = split_orders(summed(2**20, 262144)).outputs
    assert made.definition is not None
    _, order, ends = made.definition.tensors
    assert order.definition is not None
    assert order.definition.op.name == "digit_reorder"
    assert (order.definition.attr("low"), order.definition.attr("bits")) == (9, 9)
    keys, counts, before = order.definition.tensors
    assert counts.definition is not None
    assert counts.definition.tensors == (keys,)
    assert counts.shape == (128 << 9,)
    assert before.definition is not None
    assert keys.definition is not None
    assert before.definition.tensors == keys.definition.tensors
    assert before.definition.attr("low") == 0
    assert {tv.dtype for tv in (order, keys, before)} == {DataType.Int32}
    assert ends.definition is not None
    (last,) = ends.definition.tensors
    assert last.definition is not None
    assert last.definition.tensors == (keys, counts)


def test_pieces_read_the_same_keys() -> None:
    found = split_orders(split_groups(summed(LONG, 1000)))
    assert ops_of(found).count("digit_keys") == 1
    assert "group_keys" not in ops_of(found)


def test_a_short_order_is_left() -> None:
    fusion = summed(LONG - 1, 1000)
    assert split_orders(fusion) is fusion


def test_an_order_that_is_returned_is_left() -> None:
    index = tensor(DataType.Int, LONG)
    order, keys, ends = ordered(index, 1000)
    for returned in (order, keys):
        fusion = Fusion((index,), (returned, ends))
        assert split_orders(fusion) is fusion
    assert split_orders(Fusion((index,), (ends,))).outputs[0].dtype is DataType.Int
