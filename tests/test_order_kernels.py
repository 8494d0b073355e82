"""The order of an index: values in every thread order, indices that are no groups, cuts."""

from __future__ import annotations

import pytest
import torch

from tests.devices import ORDERS, here
from tests.programs import (
    STRICT,
    chain,
    check,
    cubin_of,
    cuda_kernels,
    fusion,
    ints,
    is_ours,
    like,
    ordered,
    places,
    run,
    run_in_orders,
    total,
)
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.kernel.ordering import OrderKernel
from thunder_fuser.options import Options
from thunder_fuser.runtime.errors import IndexRangeError

pytestmark = [pytest.mark.usefixtures("device"), pytest.mark.sanitizer]


# Terms, groups, and how often one group is named: fewer terms than a warp has threads, several
# batches of a warp, and numbers of groups around those of one block and of 16-bit keys.
CASES = (
    (1, 1, 0),
    (31, 5, 0),
    (700, 1, 0),
    (3000, 256, 2900),
    (10000, 257, 0),
    (9001, 40, 5000),
    (500, 513, 100),
    (600, 2**15, 0),
    (600, 2**15 + 1, 0),
    (300, 2**16 + 9, 40),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_groups_follow_each_other_and_places_of_a_group_too(case: tuple[int, int, int]) -> None:
    terms, count, often = case
    index = places(terms, count, often)
    index[-1] = count - 1
    (i,) = like(index)
    plan, results = run_in_orders(fusion([i], *ordered(i, count)), index)
    assert is_ours(plan)
    keys, found = torch.sort(index, stable=True)
    ends = torch.bincount(index, minlength=count).cumsum(0)
    for made in results:
        assert [t.tolist() for t in made] == [t.tolist() for t in (found, keys, ends)]


# What a warp of a block of 512 groups keeps, and of one of 256, in its part of so many terms.
@pytest.mark.parametrize(("part", "own"), [(256, 240), (256, 241), (128, 120), (128, 121)])
def test_a_warp_may_find_as_many_places_as_it_keeps_and_more(part: int, own: int) -> None:
    index = torch.full((4096 // part, part), 599)
    index[:, torch.randperm(part)[:own]] = torch.randint(256, (4096 // part, own))
    index = index.flatten()
    (i,) = like(index)
    assert is_ours(
        check(fusion([i], *ordered(i, 600)), index, options=Options(strict=True), orders=ORDERS)
    )


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.int8, torch.uint8])
def test_any_integers_are_put_in_order(dtype: torch.dtype) -> None:
    index = places(2000, 120).to(dtype)
    (i,) = like(index)
    assert is_ours(check(fusion([i], *ordered(i, 120)), index))


@pytest.mark.parametrize("kept", [(0,), (1,), (2,), (0, 2)], ids=str)
def test_each_result_may_be_wanted_alone(kept: tuple[int, ...]) -> None:
    index = places(300, 9)
    (i,) = like(index)
    assert is_ours(check(fusion([i], *(ordered(i, 9)[k] for k in kept)), index))


@pytest.mark.parametrize("count", [0, 3])
def test_no_place_is_in_order(count: int) -> None:
    index = torch.zeros(0, dtype=torch.int64)
    (i,) = like(index)
    check(fusion([i], *ordered(i, count)), index)


@pytest.mark.parametrize("step", [1, 2])
def test_an_index_is_computed_where_it_is_read(step: int) -> None:
    index = places(300 * step, 9)[::step]
    (i,) = like(index)
    plan = check(fusion([i], *ordered(chain(chain(i, "neg"), "neg"), 9)), index)
    assert is_ours(plan)
    assert plan.launches == 1


def test_an_index_that_is_returned_is_stored_before() -> None:
    index = places(300, 9)
    (i,) = like(index)
    wrapped = chain(i, "neg", "neg")
    plan = check(fusion([i], wrapped, *ordered(wrapped, 9), chain(wrapped, "neg")), index)
    assert is_ours(plan)
    assert plan.launches == 2


def test_an_index_that_takes_sums_is_stored_before() -> None:
    index = places(300, 3).repeat(40, 1).T.contiguous()
    (i,) = like(index)
    plan = check(fusion([i], *ordered(chain(total(i, 1), "neg", "neg"), 130)), index)
    assert is_ours(plan)
    assert plan.launches == 2


def test_two_indices_are_put_in_order_by_two_kernels() -> None:
    index, other = places(300, 9), places(500, 7)
    i, j = like(index, other)
    plan = check(fusion([i, j], *ordered(i, 9), *ordered(j, 7), chain(i, "neg")), index, other)
    assert is_ours(plan)
    assert plan.launches == 3


def test_one_index_in_groups_of_two_tables_is_two_orders() -> None:
    index = places(300, 9)
    (i,) = like(index)
    plan = check(fusion([i], *ordered(i, 9), *ordered(i, 11)), index)
    assert is_ours(plan)


@pytest.mark.parametrize("terms", [60, 4000])
def test_what_a_kernel_does_not_hold_is_torchs(terms: int) -> None:
    """Keys of an order that a caller gives, also of an index that is computed."""
    index, order = places(terms, 9), torch.randperm(terms)
    i, o = like(index, order)
    for source in (i, chain(i, "neg", "neg")):
        keys = call("group_keys", source, o, count=ints([9]))
        assert not is_ours(check(fusion([i, o], keys), index, order))


# The last ones are 3 where only their low 16 or 32 bits count.
@pytest.mark.parametrize("bad", [-1, 9, 2**15 + 3, 2**16 + 3, 2**32 + 3, -(2**63)])
@pytest.mark.parametrize("terms", [5, 5000])
def test_an_element_that_is_no_group_is_an_error(terms: int, bad: int) -> None:
    if here().type == "cuda":
        pytest.skip("a failed assertion ends the process's use of the GPU")
    index = places(terms, 9)
    index[terms // 2] = bad
    (i,) = like(index)
    with pytest.raises(IndexRangeError, match=f"index {bad} is out of range .* extent 9"):
        run(fusion([i], *ordered(i, 9)), index, options=STRICT)
    apart = index.repeat_interleave(2)[::2]
    (i,) = like(apart)
    with pytest.raises(IndexError):  # from torch
        run(fusion([i], *ordered(i, 9)), apart, options=STRICT)


def test_any_place_is_an_error_where_there_is_no_group() -> None:
    if here().type == "cuda":
        pytest.skip("a failed assertion ends the process's use of the GPU")
    index = torch.zeros(5, dtype=torch.int64)
    (i,) = like(index)
    with pytest.raises(IndexRangeError, match=r"index 0 is out of range .* extent 0"):
        run(fusion([i], *ordered(i, 0)), index, options=STRICT)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
@pytest.mark.parametrize(
    ("terms", "count"), [(16384, 32000), (16384, 128256), (65536, 200), (3, 2**31 + 5)]
)
def test_nvrtc_compiles_it_without_spills(terms: int, count: int, dtype: torch.dtype) -> None:
    index = torch.empty(terms, dtype=dtype)
    (i,) = like(index)
    _, (kernel,) = cuda_kernels(fusion([i], *ordered(i, count)), index)
    assert isinstance(kernel, OrderKernel)
    assert all(p.dtype is DataType.Int for p in kernel.pointers if p.is_written)
    assert cubin_of(kernel).spill_bytes == 0
