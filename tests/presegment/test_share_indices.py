"""Equal integers become one tensor where an index is put in order."""

from __future__ import annotations

from tests.programs import chain, ints, ordered
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion, Write
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.share_indices import share_indices


def summed(x: TensorView, index: TensorView) -> TensorView:
    order, _, ends = ordered(chain(index, "neg"), 9)
    return call("group_sum", x, order, ends, dim=0, skip=-1)


def count(fusion: Fusion, name: str) -> int:
    return sum(expr.op.name == name for expr in fusion.exprs)


x, index, other = (
    tensor(DataType.Float, 60, 24),
    tensor(DataType.Int, 60),
    tensor(DataType.Int, 60),
)


def test_two_sums_by_one_index_share_its_order() -> None:
    fusion = Fusion((x, index), (call("add", summed(x, index), summed(chain(x, "neg"), index)),))
    shared = share_indices(fusion)
    assert [count(shared, name) for name in ("group_order", "group_keys", "group_ends")] == [
        1,
        1,
        1,
    ]
    assert count(shared, "group_sum") == 2


def test_other_indices_have_orders_of_their_own() -> None:
    fusion = Fusion((x, index, other), (call("add", summed(x, index), summed(x, other)),))
    assert share_indices(fusion) is fusion


def test_what_is_returned_or_written_stays_apart() -> None:
    orders = [call("group_order", index, count=ints([60])) for _ in range(4)]
    used = call("index_select", index, orders[3], dim=0)
    fusion = Fusion((index, other), (*orders[:2], used), (Write(orders[2], other),))
    assert share_indices(fusion) is fusion


def test_a_fusion_without_an_order_is_left() -> None:
    twice = call("add", chain(index, "neg"), chain(index, "neg"))
    fusion = Fusion((index,), (twice,))
    assert share_indices(fusion) is fusion
