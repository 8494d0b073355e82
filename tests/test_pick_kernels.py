"""Sums of what an index of each element sends to one place of its row."""

from __future__ import annotations

import pytest
import torch

from tests.devices import ORDERS
from tests.programs import chain, check, fusion, ints, like, run_in_orders, whole
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.runtime.plan import Plan

pytestmark = [pytest.mark.usefixtures("device"), pytest.mark.sanitizer]


def picked(x: TensorView, index: TensorView, count: int) -> TensorView:
    """Of each row of x the sums where the index is 0, 1, ... count - 1."""
    return call("pick_sum", x, index, dim=x.ndim - 1, count=ints([count]))


def is_one_kernel(plan: Plan) -> bool:
    return plan.launches == 1 and not any(s.is_opaque for s in plan.segmented.segments)


# Rows, elements of a row, columns, and how often one column is named: short rows and vectors of
# several, odd ones, empty columns, few terms and many, columns that a warp sums, elements for which
# slots of columns have no room, and more of these than a block keeps.
CASES = (
    (1, 1, 1, 0),
    (3, 5, 40, 0),
    (70, 24, 16, 0),
    (9, 37, 33, 0),
    (5, 300, 7, 0),
    (2, 640, 512, 600),
    (1, 2500, 2048, 0),
    (3, 64, 5, 40),
    (2, 700, 720, 60),
    (2, 700, 720, 500),
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int16])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_column_gets_the_sum_of_what_is_sent_to_it(
    case: tuple[int, int, int, int], dtype: torch.dtype
) -> None:
    rows, places, columns, often = case
    x, index = (
        torch.randint(-1, 2, (rows, places)).to(dtype),
        torch.randint(columns, (rows, places)),
    )
    index[:, torch.randperm(places)[:often]] = columns // 2
    a, i = like(x, index)
    plan, results = run_in_orders(fusion([a, i], picked(a, i, columns)), x, index)
    assert is_one_kernel(plan)
    exact = torch.zeros(rows, columns).scatter_add(1, index, x.float()).to(dtype)
    assert all(torch.equal(found, exact) for (found,) in results)


def sums_of(x: torch.Tensor, index: torch.Tensor, columns: int) -> list[torch.Tensor]:
    """What each order of the host's threads comes to."""
    a, i = like(x, index)
    plan, results = run_in_orders(fusion([a, i], picked(a, i, columns)), x, index)
    assert is_one_kernel(plan)
    return [found for (found,) in results]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("columns", [3, 60, 400])
def test_sums_are_as_exact_as_those_in_order_and_the_same_in_every_one(
    columns: int, dtype: torch.dtype
) -> None:
    """Of a few terms, of up to 32, and of more, which differ by many powers of two."""
    x = (torch.randn(4, 500) * 2.0 ** torch.randint(-20, 12, (4, 500))).to(dtype)
    index = torch.randint(columns, (4, 500), dtype=torch.int32)
    first, *others = sums_of(x, index, columns)
    assert all(torch.equal(first, other) for other in others)
    zeros, hits = torch.zeros(4, columns), index.long()
    exact = zeros.double().scatter_add(1, hits, x.double())
    sizes = zeros.double().scatter_add(1, hits, x.double().abs())
    rounding = torch.finfo(dtype).eps * exact.abs() + 2 * torch.finfo(torch.float32).eps * sizes
    assert ((first.double() - exact).abs() <= rounding).all()


@pytest.mark.parametrize("often", [1, 4, 20, 100])
def test_infinities_and_what_is_no_number_are_summed(often: int) -> None:
    far = torch.finfo(torch.float32).max
    x = torch.tensor([torch.inf, -far, torch.nan, torch.inf, -torch.inf, 1.0]).repeat(often)
    index = torch.tensor([0, 0, 1, 2, 2, 3]).repeat(often)
    for found in sums_of(x[None], index[None], 6):
        wanted = torch.tensor([[torch.inf, torch.nan, torch.nan, often, 0, 0]])
        assert torch.equal(found.nan_to_num(nan=7.0), wanted.nan_to_num(nan=7.0))


def test_numbers_near_zero_are_summed() -> None:
    x = torch.full((1, 70), 2.0**-149)
    index = torch.tensor([[0] * 40 + [1] * 30])
    for found in sums_of(x, index, 3):
        assert torch.equal(found, torch.tensor([[40.0, 30.0, 0.0]]) * 2.0**-149)


def test_what_is_added_to_in_place_is_read_where_it_is_written() -> None:
    x, index, total = whole(9, 40), torch.randint(24, (9, 40)), whole(9, 24)
    a, i, t = like(x, index, total)
    made = call("add", t, picked(chain(a, "neg"), i, 24))
    plan = check(fusion([a, i, t], writes=[(made, t)]), x, index, total, orders=ORDERS)
    assert is_one_kernel(plan)


def test_two_sums_are_two_kernels() -> None:
    """Of which one adds what the other came to."""
    x, index = whole(9, 40), torch.randint(40, (9, 40))
    a, i = like(x, index)
    first = picked(a, i, 40)
    plan = check(fusion([a, i], picked(first, i, 40), picked(chain(a, "neg"), i, 40)), x, index)
    assert plan.launches == 3
    assert not any(s.is_opaque for s in plan.segmented.segments)


@pytest.mark.parametrize("shape", [(3, 20000), (9, 40)])
def test_what_no_block_holds_is_torchs(shape: tuple[int, int]) -> None:
    dtype = torch.float64 if shape == (9, 40) else torch.float32
    x, index = whole(*shape, dtype=dtype), torch.randint(7, shape)
    a, i = like(x, index)
    plan = check(fusion([a, i], picked(a, i, 7)), x, index)
    assert all(s.is_opaque for s in plan.segmented.segments)


def test_an_index_and_its_elements_may_lie_apart() -> None:
    x, index = whole(40, 18).t()[::2], torch.randint(24, (1, 80))[:, ::2].expand(9, 40)
    a, i = like(x, index)
    assert is_one_kernel(check(fusion([a, i], picked(a, i, 24)), x, index))
