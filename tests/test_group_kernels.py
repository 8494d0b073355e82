"""Sums of rows that an index sends to one place: values in every thread order, and cuts."""

from __future__ import annotations

import pytest
import torch

from tests.devices import ORDERS, copies, here
from tests.programs import (
    STRICT,
    chain,
    check,
    cubin_of,
    cuda_kernels,
    expand,
    flip,
    full,
    fusion,
    ints,
    like,
    ordered,
    permute,
    piece,
    places,
    reshape,
    run,
    run_in_orders,
    total,
    unsqueeze,
    whole,
)
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.group_ir import GroupKernel
from thunder_fuser.options import Options
from thunder_fuser.presegment.split_groups import split_groups
from thunder_fuser.runtime.plan import Plan
from thunder_fuser.schedule.groups import FEW

pytestmark = [pytest.mark.usefixtures("device"), pytest.mark.sanitizer]


def summed(
    x: TensorView, index: TensorView, count: int, dim: int = 0, skip: int = -1
) -> TensorView:
    """The sums of x where the index is 0, 1, ... count - 1."""
    order, _, ends = ordered(index, count)
    return call("group_sum", x, order, ends, dim=dim, skip=skip)


def kernels_of(plan: Plan) -> int:
    """Kernels beside the one that orders the index."""
    assert not any(s.is_opaque for s in plan.segmented.segments), str(plan)
    return plan.launches - 1


# Terms, places, the size of a row, and how often one place is named: empty groups, one term each,
# groups of a batch and more, those that a block shares, short rows, several blocks along a row.
CASES = (
    (1, 1, 1, 0),
    (5, 40, 8, 0),
    (40, 40, 33, 0),
    (200, 40, 64, 0),
    (300, 7, 131, 0),
    (2000, 50, 16, 1000),
    (300, 3, 600, 290),
    (90, 1000, 4, 17),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_place_gets_the_sum_of_what_is_sent_to_it(case: tuple[int, int, int, int]) -> None:
    terms, count, columns, often = case
    x, index = whole(terms, columns), places(terms, count, often)
    a, i = like(x, index)
    plan, results = run_in_orders(fusion([a, i], summed(a, i, count)), x, index)
    assert kernels_of(plan) == 1
    exact = torch.zeros(count, columns).index_add(0, index, x)
    assert all(torch.equal(found, exact) for (found,) in results)


@pytest.mark.parametrize(
    ("terms", "count", "often"), [(4096, 1, 0), (4200, 3, 2000), (5000, 900, 4000), (6000, 60, 300)]
)
def test_a_long_order_is_summed_in_pieces(terms: int, count: int, often: int) -> None:
    x, index = whole(terms, 24), places(terms, count, often)
    a, i = like(x, index)
    plan, results = run_in_orders(fusion([a, i], summed(a, i, count)), x, index)
    assert kernels_of(plan) == 2
    exact = torch.zeros(count, 24).index_add(0, index, x)
    assert all(torch.equal(found, exact) for (found,) in results)


@pytest.mark.parametrize("columns", [8, 80, 161])
def test_places_that_are_named_most_often_may_be_the_first_ones(columns: int) -> None:
    """As words of a language are: of 700 places the first few dozen have most of the terms."""
    x, index = whole(6000, columns), (torch.rand(6000) ** 6 * 700).long()
    a, i = like(x, index)
    exact = torch.zeros(700, columns).index_add(0, index, x)
    for (found,) in run_in_orders(fusion([a, i], summed(a, i, 700)), x, index)[1]:
        assert torch.equal(found, exact)


@pytest.mark.parametrize(("columns", "dtype"), [(8, torch.float32), (9, torch.bfloat16)])
@pytest.mark.parametrize("skipped", [-1, 100])
def test_rows_of_many_terms_lie_between_those_whose_terms_a_block_holds(
    skipped: int, columns: int, dtype: torch.dtype
) -> None:
    """Some places have a hundred of 3,000 terms: first and last ones, neighbours, one alone."""
    often = [0, 1, 60, 100, 198, 199]
    index = torch.cat((places(2400, 200), torch.tensor(often).repeat(100)))
    x, index = torch.randint(-2, 3, (3000, columns)).to(dtype), index[torch.randperm(3000)]
    a, i = like(x, index)
    program = fusion([a, i], summed(a, i, 200, skip=skipped))
    exact = torch.zeros(200, columns).index_add(0, index, x.float()).to(dtype)
    exact[skipped if skipped >= 0 else slice(0)] = 0
    for (found,) in run_in_orders(program, x, index)[1]:
        assert torch.equal(found, exact)
    _, kernels = cuda_kernels(program, x, index)
    assert any(kernel.batch_held for kernel in kernels if isinstance(kernel, GroupKernel))


def test_pieces_are_added_in_thirty_two_bits() -> None:
    x, index = torch.ones(9000, 8, dtype=torch.bfloat16), torch.ones(9000, dtype=torch.int64)
    a, i = like(x, index)
    widened = chain(call("cast", summed(a, i, 3), dtype=DataType.Float), "neg")
    (found,) = run(fusion([a, i], widened), *copies([x, index]), options=Options())
    assert found.cpu()[:, 0].tolist() == [0, -9000, 0]


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_pieces_lie_along_any_axis(dim: int) -> None:
    x = whole(*(4500 if k == dim else n for k, n in enumerate((3, 2, 8))))
    y, index = whole(*x.shape), places(4500, 7, 1000)
    a, b, i = like(x, y, index)
    order, _, ends = ordered(i, 7)
    sums = [call("group_sum", t, order, ends, dim=dim, skip=-1) for t in (chain(a, "neg"), b)]
    check(fusion([a, b, i], call("mul", *sums)), x, y, index)


def test_a_skipped_place_has_no_pieces() -> None:
    x, index = whole(5000, 24), places(5000, 9, 3000)
    a, i = like(x, index)
    program = fusion([a, i], summed(a, i, 9, skip=4))
    check(program, x, index)
    (found,) = run(program, *copies([x, index]))
    assert not found[4].any()
    assert found[3].any()


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_any_axis_is_summed(dim: int) -> None:
    x = whole(5, 40, 6)
    index = places(x.shape[dim], 7)
    a, i = like(x, index)
    assert kernels_of(check(fusion([a, i], summed(a, i, 7, dim)), x, index)) == 1


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.int64, torch.uint8]
)
@pytest.mark.parametrize("terms", [60, 4500])
def test_any_real_type_is_summed(terms: int, dtype: torch.dtype) -> None:
    x, index = torch.randint(0, 3, (terms, 24)).to(dtype), places(terms, 9, terms // 3)
    a, i = like(x, index)
    assert kernels_of(check(fusion([a, i], summed(a, i, 9)), x, index)) == 1 + (terms > 60)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_any_integers_are_places(dtype: torch.dtype) -> None:
    x, index = whole(60, 24), places(60, 9).to(dtype)
    a, i = like(x, index)
    check(fusion([a, i], summed(a, i, 9)), x, index)


def test_sixteen_bits_are_summed_in_thirty_two() -> None:
    x, index = torch.ones(2000, 8, dtype=torch.bfloat16), torch.zeros(2000, dtype=torch.int64)
    a, i = like(x, index)
    (found,) = run(fusion([a, i], summed(a, i, 2)), *copies([x, index]))
    assert found[0, 0] == 2000  # added up in bf16 it would stop at 256
    assert found[1, 0] == 0


@pytest.mark.parametrize("terms", [12, 3000, 5000])
def test_every_run_adds_in_the_same_order(terms: int) -> None:
    x, index = torch.randn(terms, 40), places(terms, 3)
    a, i = like(x, index)
    program = fusion([a, i], summed(a, i, 3))
    found = [
        run(program, *copies([x, index]), options=Options(strict=True, thread_order=order))[0]
        for order in ORDERS
    ]
    assert all(torch.equal(found[0], other) for other in found)


# Rows that no wide vector divides: of one vector and a bit, of several blocks, beginning anywhere
# in a vector of the result or at each second element; whole vectors of an operand not aligned.
@pytest.mark.parametrize("columns", [9, 33, 64, 66, 577, 1002])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.uint8, torch.float32])
def test_rows_that_begin_inside_of_vectors_are_summed(columns: int, dtype: torch.dtype) -> None:
    index = torch.cat([places(300, 90), torch.full((60,), 7), torch.arange(600) + 100])
    x = torch.randint(0, 3, (len(index), columns + 1)).to(dtype)[:, 1:]
    a, i = like(x, index)
    exact = torch.zeros(800, columns).index_add(0, index, x.float())
    for (found,) in run_in_orders(fusion([a, i], summed(a, i, 800)), x, index)[1]:
        assert torch.equal(found.float(), exact)


@pytest.mark.parametrize("dim", [0, 1])
def test_elements_may_lie_apart_along_a_row(dim: int) -> None:
    x = whole(60, 60, 11, 7).transpose(2, 3)
    index = places(60, 9, 30)
    a, b, i = like(x, x, index)
    check(
        fusion([a, b, i], chain(summed(call("mul", a, chain(b, "neg")), i, 9, dim), "neg")),
        x,
        x,
        index,
    )


def test_a_sum_of_odd_rows_may_be_added_in_place() -> None:
    x, table, index = whole(60, 577), whole(9, 577), places(60, 9, 30)
    a, t, i = like(x, table, index)
    check(fusion([a, t, i], writes=[(call("add", t, summed(a, i, 9)), t)]), x, table, index)


def test_few_terms_are_added_in_their_order() -> None:
    """In f32 the order of these shows."""
    x = torch.tensor([1e8, 1.0, -1e8, 1.0, 3e-9, 7.0, -7.0, 1.0]).unsqueeze(1)
    index = torch.full((8,), 2)
    a, i = like(x, index)
    (found,) = run(fusion([a, i], summed(a, i, 4)), *copies([x, index]))
    assert torch.equal(found.cpu(), torch.zeros(4, 1).index_add(0, index, x))


@pytest.mark.parametrize("columns", [8, 64, 77, 577])
def test_rows_of_any_few_terms_are_added_in_their_order(columns: int) -> None:
    """Every number of terms that a part sums alone, in so many rows that it has several."""
    each = torch.arange(FEW + 1).repeat(70)[torch.randperm(70 * (FEW + 1))]
    index = torch.arange(len(each)).repeat_interleave(each)
    index = index[torch.randperm(len(index))]
    x = torch.randn(len(index), columns)
    a, i = like(x, index)
    exact = torch.zeros(len(each), columns).index_add(0, index, x)
    for (found,) in run_in_orders(fusion([a, i], summed(a, i, len(each))), x, index)[1]:
        assert torch.equal(found, exact)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("tables", [1, 2])
def test_rows_of_few_and_of_many_terms_lie_side_by_side(tables: int, dim: int) -> None:
    """So many rows that a part has several, some without terms and one that is skipped."""
    each = torch.tensor([0, 1, FEW, FEW + 1, 90, 3, 0, 1]).repeat(70)[:-3]
    index = torch.arange(len(each)).repeat_interleave(each)[torch.randperm(int(each.sum()))]
    shape = [len(index) if k == dim else n for k, n in enumerate((2, 3, 5))]
    given = [*(whole(*shape) for _ in range(tables)), index]
    *factors, i = like(*given)
    x = factors[0] if tables == 1 else call("mul", *factors)
    program = fusion([*factors, i], summed(x, i, len(each), dim, skip=4))
    check(program, *given, orders=ORDERS)


@pytest.mark.parametrize("often", [0, 100])
def test_a_skipped_place_gets_nothing(often: int) -> None:
    x, index = whole(200, 24), places(200, 9, often)
    a, i = like(x, index)
    program = fusion([a, i], summed(a, i, 9, skip=4))
    check(program, x, index)
    (found,) = run(program, *copies([x, index]))
    assert not found[4].any()


@pytest.mark.parametrize("terms", [0, 7])
@pytest.mark.parametrize("columns", [0, 8])
def test_nothing_is_the_sum_of_nothing(terms: int, columns: int) -> None:
    x, index = whole(terms, columns), places(terms, 5)
    a, i = like(x, index)
    check(fusion([a, i], summed(a, i, 5)), x, index)


def test_an_index_may_be_a_constant() -> None:
    x = whole(60, 24)
    (a,) = like(x)
    counter = call("iota", *ints([0, 1]), length=ints([60]), dtype=DataType.Int)
    for index in (counter, full(3, 60, dtype=DataType.Int)):
        check(fusion([a], summed(a, index, 60)), x)


def test_what_orders_an_index_may_be_returned() -> None:
    index = places(60, 9)
    (i,) = like(index)
    order, _, ends = ordered(i, 9)
    check(fusion([i], order, ends, chain(order, "neg")), index)


LAYOUTS = {
    "transposed": lambda: whole(24, 60).t(),
    "strided": lambda: whole(60, 48)[:, ::2],
    "expanded": lambda: whole(60, 1).expand(60, 24),
    "one row": lambda: whole(1, 24).expand(60, 24),
    "misaligned": lambda: whole(60 * 24 + 1)[1:].view(60, 24),
    "wide": lambda: whole(60, 40)[:, 3:27],
}


@pytest.mark.parametrize("lies", LAYOUTS)
def test_an_operand_may_lie_anyhow(lies: str) -> None:
    x, index = LAYOUTS[lies](), places(60, 9, 30)
    a, i = like(x, index)
    assert kernels_of(check(fusion([a, i], summed(chain(a, "neg"), i, 9)), x, index)) == 1


def test_what_leads_to_it_and_what_follows_are_one_kernel() -> None:
    x, w, table, index = whole(60, 24), whole(24), whole(9, 24), places(60, 9, 30)
    a, b, t, i = like(x, w, table, index)
    made = summed(call("mul", chain(a, "neg"), b), i, 9)
    after = call("add", t, chain(made, "neg"))
    assert kernels_of(check(fusion([a, b, t, i], after, made), x, w, table, index)) == 1


def test_sums_of_one_order_share_a_kernel() -> None:
    x, y, index = whole(60, 24), whole(60, 24), places(60, 9)
    a, b, i = like(x, y, index)
    order, _, ends = ordered(i, 9)
    both = [call("group_sum", t, order, ends, dim=0, skip=-1) for t in (a, b)]
    assert kernels_of(check(fusion([a, b, i], call("sub", *both), *both), x, y, index)) == 1


def test_many_sums_of_one_order_share_a_kernel() -> None:
    tables, index = [whole(60, 256) for _ in range(9)], places(60, 9, 30)
    *many, i = like(*tables, index)
    order, _, ends = ordered(i, 9)
    sums = [call("group_sum", t, order, ends, dim=0, skip=-1) for t in many]
    assert kernels_of(check(fusion([*many, i], *sums), *tables, index)) == 1
    _, kernels = cuda_kernels(fusion([*many, i], *sums), *tables, index)
    cubin_of(kernels[-1])


def test_sums_of_two_orders_are_two_kernels() -> None:
    x, index, other = whole(60, 24), places(60, 9), places(60, 9)
    a, i, j = like(x, index, other)
    plan = check(fusion([a, i, j], summed(a, i, 9), summed(a, j, 9)), x, index, other)
    assert kernels_of(plan) == 3  # one of them orders the other index


def test_the_same_elements_in_another_shape_stay_in_the_kernel() -> None:
    x, index = whole(60, 24), places(60, 9)
    a, i = like(x, index)
    for shape in ((3, 72), (9, 4, 6), (216,), (1, 9, 24)):
        after = chain(reshape(unsqueeze(summed(a, i, 9), 0), *shape), "neg")
        assert kernels_of(check(fusion([a, i], after), x, index)) == 1


AFTER = {
    "part": lambda s: chain(piece(s, 0, 2, 7), "neg"),
    "turned": lambda s: chain(permute(s, 1, 0), "neg"),
    "along rows": lambda s: total(s, 1),
    "down columns": lambda s: total(s, 0),
    "flipped": lambda s: chain(flip(s, 1), "neg"),
    "in other rows": lambda s: chain(reshape(s, 16, 27), "neg"),
    "repeated": lambda s: chain(expand(unsqueeze(s, 0), 3, 9, 48), "neg"),
}


@pytest.mark.parametrize("name", AFTER)
def test_what_reads_other_elements_is_behind_a_cut(name: str) -> None:
    x, index = whole(60, 48), places(60, 9)
    a, i = like(x, index)
    assert kernels_of(check(fusion([a, i], AFTER[name](summed(a, i, 9))), x, index)) == 2


def test_what_is_summed_may_be_the_end_of_reductions() -> None:
    x, index = whole(60, 40), places(60, 9)
    a, i = like(x, index)
    centred = call("sub", a, expand(unsqueeze(total(a, 1), 1), 60, 40))
    check(fusion([a, i], summed(centred, i, 9)), x, index)


def test_a_sum_may_be_added_in_place() -> None:
    x, table, index = whole(60, 24), whole(9, 24), places(60, 9)
    a, t, i = like(x, table, index)
    added = call("add", t, summed(a, i, 9))
    assert kernels_of(check(fusion([a, t, i], writes=[(added, t)]), x, table, index)) == 1


def test_a_sum_of_what_it_is_written_into_reads_the_old_value() -> None:
    x, index = whole(9, 24), places(9, 9)
    a, i = like(x, index)
    added = call("add", a, summed(a, i, 9))
    check(fusion([a, i], writes=[(added, a)]), x, index)


@pytest.mark.parametrize("bad", [-3, 70, 2**40])
def test_ends_that_a_caller_gives_are_cut_to_the_order(bad: int) -> None:
    x, order, ends = whole(60, 24), torch.randperm(60), torch.tensor([bad, 20, 60])
    a, o, e = like(x, order, ends)
    program = fusion([a, o, e], call("group_sum", a, o, e, dim=0, skip=-1))
    (found,) = run(program, *copies([x, order, ends]))
    assert torch.equal(found[2].cpu(), x[order[20:]].sum(0))


def test_an_order_that_a_caller_gives_is_checked() -> None:
    if here().type == "cuda":
        pytest.skip("a failed assertion ends the process's use of the GPU")
    x, order, ends = whole(6, 24), torch.tensor([0, 1, 6, 3, 4, 5]), torch.tensor([2, 6])
    a, o, e = like(x, order, ends)
    program = fusion([a, o, e], call("group_sum", a, o, e, dim=0, skip=-1))
    with pytest.raises(IndexError, match=r"index 6 is out of range .* extent 6"):
        run(program, x, order, ends, options=STRICT)


@pytest.mark.parametrize(
    ("terms", "count", "columns", "dtype"),
    [
        (16384, 128256, 4096, torch.bfloat16),
        (16384, 300000, 8192, torch.bfloat16),  # offsets beyond 32 bits
        (8192, 32000, 4096, torch.float32),
        (4096, 503, 77, torch.bfloat16),
        (116306, 116306, 577, torch.float16),
        (4999, 333, 50257, torch.bfloat16),
        (20000, 9000, 1002, torch.bfloat16),
        (20000, 9000, 333, torch.float32),
        (60000, 70000, 225, torch.bfloat16),
        (60000, 70000, 1001, torch.float16),
        (67042, 67042, 1001, torch.float32),
        (1000, 300, 64, torch.float64),
        (1000, 300, 64, torch.uint8),
        (20000, 9000, 577, torch.uint8),
        (20000, 9000, 33, torch.int32),
        (20000, 9000, 9, torch.float16),
    ],
)
def test_nvrtc_compiles_it_without_spills(
    terms: int, count: int, columns: int, dtype: torch.dtype
) -> None:
    x = torch.empty(terms, columns, dtype=dtype)
    index = torch.empty(terms, dtype=torch.int32)
    a, b, i = like(x, x, index)
    whole_orders = (
        fusion([a, i], summed(a, i, count)),
        fusion([a, b, i], chain(summed(call("mul", a, b), i, count), "neg")),
    )
    for program in (whole_orders[columns % 2], split_groups(whole_orders[1 - columns % 2])):
        tensors = (x, index) if len(program.inputs) == 2 else (x, x, index)
        _, kernels = cuda_kernels(program, *tensors)
        grouped = [kernel for kernel in kernels if isinstance(kernel, GroupKernel)]
        assert grouped
        for kernel in grouped:  # what puts in order is alike for all, see test_order_kernels.py
            assert cubin_of(kernel).spill_bytes == 0
