"""The torch expressions of the rows that sum by an index, against loops in Python."""

from __future__ import annotations

import pytest
import torch

from tests.programs import ints, like, ordered
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ops import Family
from thunder_fuser.ops.groups import GROUPS
from thunder_fuser.runtime.evaluate import evaluate


def grouped(index: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    (i,) = like(index)
    order, _, ends = ordered(i, count)
    found_order, found_ends = evaluate(Fusion((i,), (order, ends)), [index])
    return found_order, found_ends


def test_an_order_puts_equal_places_side_by_side_in_their_order() -> None:
    index = torch.tensor([3, 0, 3, 1, 0, 3])
    order, ends = grouped(index, 5)
    assert order.tolist() == [1, 4, 3, 0, 2, 5]
    assert ends.tolist() == [2, 3, 3, 6, 6]
    assert (order.dtype, ends.dtype) == (torch.int64, torch.int64)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("skip", [-1, 2])
def test_a_sum_is_over_the_stretch_of_its_group(dim: int, skip: int) -> None:
    x = torch.randint(-9, 9, (7, 8, 9)).float()
    index = torch.randint(5, (x.shape[dim],))
    order, ends = grouped(index, 5)
    a, o, e = like(x, order, ends)
    made = call("group_sum", a, o, e, dim=dim, skip=skip)
    (found,) = evaluate(Fusion((a, o, e), (made,)), [x, order, ends])
    for v in range(5):
        terms = [x.select(dim, t) for t in range(len(index)) if index[t] == v and v != skip]
        wanted = sum(terms, torch.zeros_like(x.select(dim, 0)))
        assert torch.equal(found.select(dim, v), wanted)


@pytest.mark.parametrize("skip", [-1, 1])
def test_a_piece_counts_where_it_lies_in_one_group(skip: int) -> None:
    x, order = torch.randint(-9, 9, (11, 4)).to(torch.bfloat16), torch.randperm(11)
    keys = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2])
    a, o, k = like(x, order, keys)
    made = call("group_pieces", a, o, k, dim=0, skip=skip, size=3)
    (found,) = evaluate(Fusion((a, o, k), (made,)), [x, order, keys])
    sums = [x[order[3 * p : 3 * p + 3]].float().sum(0) for p in range(3)]
    zero = torch.zeros(4)
    assert torch.equal(found, torch.stack([sums[0], zero, zero if skip == 1 else sums[2]]))
    assert found.dtype is torch.float32


def test_a_sum_of_pieces_is_the_same_sum() -> None:
    x, index = torch.randint(-9, 9, (40, 4)).float(), torch.randint(3, (40,))
    order, ends = grouped(index, 3)
    a, o, e, k = like(x, order, ends, index[order])
    pieces = call("group_pieces", a, o, k, dim=0, skip=-1, size=4)
    made = call("group_sum_of_pieces", a, o, e, pieces, dim=0, skip=-1, size=4)
    (found,) = evaluate(Fusion((a, o, e, k), (made,)), [x, order, ends, index[order]])
    assert torch.equal(found, torch.zeros(3, 4).index_add(0, index, x))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_elements_are_added_where_their_own_index_says(dim: int) -> None:
    x, index = torch.randint(-9, 9, (3, 4, 5)).to(torch.bfloat16), torch.randint(7, (3, 4, 5))
    a, i = like(x, index.int())
    made = call("pick_sum", a, i, dim=dim, count=ints([7]))
    (found,) = evaluate(Fusion((a, i), (made,)), [x, index.int()])
    hits = torch.arange(7) == index.movedim(dim, -1)[..., None]
    wanted = torch.where(hits, x.movedim(dim, -1)[..., None], 0).sum(-2).movedim(-1, dim)
    assert torch.equal(found, wanted)


def test_stages_count_and_move_the_digits_of_an_index() -> None:
    index = torch.tensor([37, 0, 69, 32, 1, 37, 64])
    (i,) = like(index)
    low, high = {"low": 0, "bits": 5, "chunk": 4}, {"low": 5, "bits": 5, "chunk": 4}
    counts = call("digit_counts", i, count=ints([70]), **low)
    order, keys = (call(f"digit_{name}", i, counts, **low) for name in ("order", "keys"))
    others = call("digit_counts", keys, count=ints([70]), **high)
    both = call("digit_reorder", keys, others, order, **high)
    found, moved, first, second = evaluate(Fusion((i,), (counts, keys, both, others)), [index])
    of_chunks = found.reshape(-1, 32)
    assert (of_chunks.dtype, moved.dtype, first.dtype) == (torch.int16, torch.int32, torch.int32)
    assert of_chunks.shape == (128, 32)
    assert of_chunks[:2, :6].tolist() == [[2, 0, 0, 0, 0, 2], [1, 1, 0, 0, 0, 1]]
    assert of_chunks.sum() == len(index)
    assert moved.tolist() == [0, 32, 64, 1, 37, 69, 37]
    assert first.tolist() == torch.sort(index, stable=True).indices.tolist()
    assert second.reshape(-1, 32)[:2, :3].tolist() == [[2, 1, 1], [0, 2, 1]]


def test_an_order_by_digits_has_no_places_that_there_are_not() -> None:
    index, order = torch.tensor([1, 0, 2]), torch.tensor([0, 3, 1])
    i, o = like(index, order)
    digit = {"low": 0, "bits": 5, "chunk": 4}
    counts = call("digit_counts", i, count=ints([3]), **digit)
    made = call("digit_reorder", i, counts, o, **digit)
    with pytest.raises(IndexError):
        evaluate(Fusion((i, o), (made,)), [index, order])


def test_what_makes_an_order_is_a_family() -> None:
    families = {row.name: row.family for row in GROUPS}
    assert families == {
        "group_order": Family.ORDER,
        "group_keys": Family.ORDER,
        "group_ends": Family.ORDER,
        "group_sum": Family.GROUPED,
        "group_pieces": Family.GROUPED,
        "group_sum_of_pieces": Family.GROUPED,
        "pick_sum": Family.PICKED,
        "digit_counts": Family.STAGE,
        "digit_order": Family.STAGE,
        "digit_keys": Family.STAGE,
        "digit_reorder": Family.STAGE,
    }


def test_shapes_that_contradict_each_other_are_refused() -> None:
    x, order = tensor(DataType.Float, 6, 4), tensor(DataType.Int, 6)
    ends, plane = tensor(DataType.Int, 3), tensor(DataType.Int, 6, 2)
    with pytest.raises(ValueError, match="dim 1 of x has 4 elements, the order has 6"):
        call("group_sum", x, order, ends, dim=1, skip=-1)
    with pytest.raises(ValueError, match="order has rank 2; legal: 1"):
        call("group_sum", x, plane, ends, dim=0, skip=-1)
    with pytest.raises(ValueError, match="ends has rank 2; legal: 1"):
        call("group_sum", x, order, plane, dim=0, skip=-1)
    with pytest.raises(ValueError, match="the operand has rank 2; legal: 1"):
        call("group_order", plane, count=ints([3]))
    with pytest.raises(ValueError, match=r"an index of \[6, 2\] of an operand of \[6, 4\]"):
        call("pick_sum", x, plane, dim=1, count=ints([3]))
    with pytest.raises(ValueError, match="pieces of 0 of"):
        call("group_pieces", x, order, order, dim=0, skip=-1, size=0)
    with pytest.raises(ValueError, match="chunks of 0 of 6 places, 5 bits from 0 on"):
        call("digit_counts", order, count=ints([3]), low=0, bits=5, chunk=0)
    with pytest.raises(TypeError, match="operand 0 has dtype bool"):
        call("group_sum", tensor(DataType.Bool, 6, 4), order, ends, dim=0, skip=-1)
