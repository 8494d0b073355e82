"""Stages of the order of a long index: values in every thread order, errors, and registers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from tests.devices import copies, here
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
    plan_of,
    run,
    run_in_orders,
    whole,
)
from thunder_fuser.analysis.digit_stages import LONG, stages_of, threads_of
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.digit_stages import DigitKernel
from thunder_fuser.presegment.split_orders import in_stages, split_orders
from thunder_fuser.runtime.errors import IndexRangeError

pytestmark = [pytest.mark.usefixtures("device"), pytest.mark.sanitizer]


def staged(
    index: TensorView, count: int, stages: Sequence[tuple[int, int]], parts: int = 1
) -> tuple[TensorView, TensorView, TensorView]:
    """The order, keys and ends of an index; a thread has `parts` places."""
    chunk = parts * threads_of(stages[0][1])
    order, keys = in_stages(index, ints([count]), stages, chunk)
    return order, keys, call("group_ends", keys, count=ints([count]))


def expected(index: torch.Tensor, count: int) -> list[list[int]]:
    keys, order = torch.sort(index, stable=True)
    ends = torch.bincount(index, minlength=count).cumsum(0)
    return [t.tolist() for t in (order, keys, ends)]


# Places, groups, how often one is named, the digits and the places of a thread: fewer places than a
# warp has threads, chunks that end inside a warp, several chunks, one and several stages.
CASES = (
    (1, 2, 0, ((0, 5),), 1),
    (31, 5, 0, ((0, 6),), 1),
    (5000, 1000, 0, ((0, 10),), 3),
    (3001, 256, 2900, ((0, 8),), 1),
    (9001, 40, 5000, ((0, 5), (5, 5)), 2),
    (2600, 2**15 + 1, 100, ((0, 8), (8, 8)), 1),
    (2600, 300, 2600, ((0, 5), (5, 5)), 2),
    (4000, 70000, 0, ((0, 6), (6, 6), (12, 6)), 1),
    (20001, 300, 9000, ((0, 5), (5, 5)), 10),  # two rounds of 5120 places
    (30000, 1000, 30000, ((0, 10),), 64),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_groups_follow_each_other_and_places_of_a_group_too(
    case: tuple[int, int, int, tuple[tuple[int, int], ...], int],
) -> None:
    terms, count, often, stages, parts = case
    index = places(terms, count, often)
    (i,) = like(index)
    plan, results = run_in_orders(fusion([i], *staged(i, count, stages, parts)), index)
    assert is_ours(plan), str(plan)
    assert plan.launches == 2 * len(stages) + 1
    for made in results:
        assert [t.tolist() for t in made] == expected(index, count)


# Of 200 groups in chunks of 1024 places, the last of which is not full. Groups whose low bits are
# all set come last, as what is no place does.
ARRANGED = {
    "the first group": torch.zeros(2503, dtype=torch.int64),
    "the last digit": torch.full((2503,), 127),
    "half of one": torch.where(torch.arange(2503) % 2 == 0, 31, torch.arange(2503) % 200),
    "two in turn": torch.arange(2503) % 2 * 199,
    "in order": torch.arange(2503) // 13,
    "in reverse": torch.arange(2503).flip(0) // 13,
    "all in turn": torch.arange(2503) % 200,
}


@pytest.mark.parametrize("name", ARRANGED)
def test_any_arrangement_is_put_in_order(name: str) -> None:
    index = ARRANGED[name]
    (i,) = like(index)
    for made in run_in_orders(fusion([i], *staged(i, 200, ((0, 5), (5, 5)))), index)[1]:
        assert [t.tolist() for t in made] == expected(index, 200)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_any_integers_are_put_in_order(dtype: torch.dtype) -> None:
    index = places(2000, 120).to(dtype)
    (i,) = like(index)
    assert is_ours(check(fusion([i], *staged(i, 120, ((0, 7),))), index))


def test_the_elements_of_an_index_may_lie_apart() -> None:
    index = places(6000, 300).reshape(2000, 3)[:, 1]
    (i,) = like(index)
    made = staged(i, 300, ((0, 5), (5, 5)))
    assert is_ours(check(fusion([i], *made), index))
    (found, *_) = run(fusion([i], *made), *copies([index]))
    assert found.tolist() == torch.sort(index, stable=True).indices.tolist()


def test_an_index_is_computed_where_it_is_read() -> None:
    """A bool between, which is smaller than what it follows from, is not stored for the second."""
    index = places(300, 90) - 90
    (i,) = like(index)
    zero, groups = (sc.constant(k) for k in (0, 90))
    wrapped = call("add", i, call("where", call("lt", i, zero), groups, zero))
    plan = check(fusion([i], *staged(wrapped, 90, ((0, 7),))), index)
    assert is_ours(plan)
    assert plan.launches == 3


@pytest.mark.parametrize("kept", [(0,), (1,), (2,), (0, 2)], ids=str)
def test_each_result_may_be_wanted_alone(kept: tuple[int, ...]) -> None:
    index = places(3000, 900)
    (i,) = like(index)
    made = staged(i, 900, ((0, 5), (5, 5)))
    assert is_ours(check(fusion([i], *(made[k] for k in kept)), index))


def test_stages_are_kernels_of_their_own_beside_other_work() -> None:
    """What is computed at the same depth neither joins them nor tears one apart."""
    index, x, y = places(3000, 900), whole(3000, 8), whole(3000, 8)
    i, a, b = like(index, x, y)
    order, _, ends = staged(i, 900, ((0, 5), (5, 5)))
    made = call("group_sum", chain(a, "neg"), order, ends, dim=0, skip=-1)
    plan = check(fusion([i, a, b], made, chain(b, "neg")), index, x, y)
    assert is_ours(plan)
    assert plan.launches == 7


def test_two_indices_of_one_length_are_put_in_order_side_by_side() -> None:
    index, other = places(3000, 900), places(3000, 900)
    i, j = like(index, other)
    stages = ((0, 5), (5, 5))
    plan = check(fusion([i, j], *staged(i, 900, stages), *staged(j, 900, stages)), index, other)
    assert is_ours(plan)
    assert plan.launches == 10


# The last ones are 3 where only their low 16 or 32 bits count.
@pytest.mark.parametrize("bad", [-1, 90, 2**16 + 3, 2**32 + 3, -(2**63)])
@pytest.mark.parametrize("terms", [5, 5000])
def test_an_element_that_is_no_group_is_an_error(terms: int, bad: int) -> None:
    if here().type == "cuda":
        pytest.skip("a failed assertion ends the process's use of the GPU")
    index = places(terms, 90)
    index[terms // 2] = bad
    (i,) = like(index)
    with pytest.raises(IndexRangeError, match=f"index {bad} is out of range .* extent 90"):
        run(fusion([i], *staged(i, 90, ((0, 7),))), index, options=STRICT)


def test_counts_that_a_caller_gives_are_torchs() -> None:
    index = places(300, 30)
    counts = torch.zeros(128 << 5, dtype=torch.int16)
    i, c = like(index, counts)
    order = call("digit_order", i, c, low=0, bits=5, chunk=1024)
    assert not is_ours(check(fusion([i, c], order), index, counts))


@pytest.mark.parametrize(("count", "launches"), [(1000, 4), (70000, 6)])
def test_a_long_index_is_put_in_order_in_stages(count: int, launches: int) -> None:
    """Also of Zipf's law: half of the places have one of 32 groups. The ends of groups are found
    beside the sums of pieces."""
    terms = LONG * len(stages_of(count))
    index = (count ** torch.rand(terms)).long().clamp(max=count - 1)
    x = whole(terms, 4)
    a, i = like(x, index)
    order, _, ends = ordered(i, count)
    program = fusion([a, i], call("group_sum", a, order, ends, dim=0, skip=-1))
    plan = plan_of(program, *copies([x, index]), options=STRICT)
    assert is_ours(plan), str(plan)
    assert plan.launches == launches
    (found,) = run(program, *copies([x, index]), options=STRICT)
    assert torch.equal(found.cpu(), torch.zeros(count, 4).index_add(0, index, x))


@pytest.mark.parametrize(
    ("terms", "count", "dtype"),
    [
        *((2**20, 10**6, dtype) for dtype in (torch.int32, torch.int16, torch.int8, torch.uint8)),
        *((*size, torch.int64) for size in ((2**16, 200), (2**20, 262144), (2**20, 10**6))),
        *((2**23, count, torch.int64) for count in (65536, 10**6)),
    ],
)
def test_nvrtc_compiles_it_without_spills(terms: int, count: int, dtype: torch.dtype) -> None:
    x, index = torch.empty(terms, 8, dtype=torch.bfloat16), torch.empty(terms, dtype=dtype)
    a, i = like(x, index)
    order, _, ends = ordered(i, count)
    summed = call("group_sum", a, order, ends, dim=0, skip=-1)
    _, kernels = cuda_kernels(split_orders(fusion([a, i], summed)), x, index)
    stages = [kernel for kernel in kernels if isinstance(kernel, DigitKernel)]
    assert len(stages) == 2 * len(stages_of(count)) + 1
    for kernel in stages:
        assert cubin_of(kernel).spill_bytes == 0
