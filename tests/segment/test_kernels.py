"""Which stores are one kernel."""

from __future__ import annotations

import pytest
import torch

from tests.devices import copies
from tests.programs import (
    chain,
    check,
    expand,
    flip,
    fusion,
    ints,
    like,
    piece,
    plan_of,
    total,
    unsqueeze,
    whole,
)
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.segment.depth import depths
from thunder_fuser.segment.kernels import Kernels
from thunder_fuser.segment.memory import Memory
from thunder_fuser.segment.segment import Store

pytestmark = [pytest.mark.usefixtures("device"), pytest.mark.sanitizer]


def test_what_reads_a_row_sum_does_not_run_before_it() -> None:
    x, y = torch.randn(7, 100).round(), torch.randn(5, 7)
    a, b = like(x, y)
    rows = total(a, 1)
    check(fusion([a, b], rows, call("mul", rows, rows), chain(b, "abs")), x, y)
    check(fusion([a, b], rows, call("mul", flip(rows, 0), rows), chain(b, "abs")), x, y)


def test_running_sums_of_two_kinds_are_written_where_they_are_made(device: torch.device) -> None:
    """Kernels apart for sums down columns and for a number, each with its own in-place write."""
    x, mean, count = torch.randint(9, (70, 12)), torch.randint(9, (12,)), torch.tensor(3)
    a, m, c = like(x, mean, count)
    updated = call("add", m, total(a, 0))
    program = fusion([a, m, c], writes=[(updated, m), (call("add", c, sc.constant(1)), c)])
    plan = check(program, x, mean, count)
    assert plan.launches == 2


@pytest.mark.usefixtures("one_multiprocessor")
def test_only_the_order_of_an_index_is_apart_from_rows_and_their_column_sums() -> None:
    """One kernel holds a plane and parts of its sums, none an order as well."""
    x, index = torch.randn(600, 96), torch.randint(30, (500,))
    a, i = like(x, index)
    scaled = call("mul", a, expand(unsqueeze(total(a, 1), 1), 600, 96))
    order = call("group_order", i, count=ints([30]))
    plan = plan_of(fusion([a, i], scaled, total(scaled, 0), order), *copies([x, index]))
    assert [len(segment.stores) for segment in plan.segmented.segments] == [2, 1, 1]
    assert plan.segmented.reasons[:2] == ("the region", "puts an index in order")


@pytest.mark.usefixtures("one_multiprocessor")
def test_what_sums_nothing_is_apart_where_one_kernel_holds_all_sums() -> None:
    """Here the launch behind it, which adds up the parts, computes that as well."""
    x, y = whole(600, 96), whole(7, 5)
    a, b = like(x, y)
    scaled = call("mul", a, expand(unsqueeze(total(a, 1), 1), 600, 96))
    plan = check(fusion([a, b], chain(b, "abs"), scaled, total(scaled, 0)), x, y)
    assert [len(segment.stores) for segment in plan.segmented.segments] == [2, 2]


@pytest.mark.usefixtures("one_multiprocessor")
def test_what_sums_read_is_stored_by_their_kernel_and_the_rest_is_apart() -> None:
    x, y = whole(600, 96), whole(7, 5)
    a, b = like(x, y)
    negative = chain(a, "neg")
    scaled = call("mul", negative, expand(unsqueeze(total(negative, 1), 1), 600, 96))
    plan = check(fusion([a, b], chain(b, "abs"), negative, scaled, total(scaled, 0)), x, y)
    assert [len(segment.stores) for segment in plan.segmented.segments] == [3, 2]


def test_what_reads_a_target_at_other_elements_is_no_part_of_the_kernel_that_writes_it(
    device: torch.device,
) -> None:
    """It sums nothing, so it could wait for the kernel behind the sums."""
    x = torch.randint(9, (96, 40))
    (a,) = like(x)
    turned = chain(piece(flip(a, 0), 0, 0, 50), "neg")
    new = call("sub", a, expand(unsqueeze(total(a, 0), 0), 96, 40))
    plan = check(fusion([a], turned, writes=[(new, a)]), x)
    assert plan.launches == 3


def test_a_segment_of_the_same_stores_is_made_once() -> None:
    """So that what a template says of it is asked once."""
    (a,) = like(torch.empty(4, 6))
    program = fusion([a], chain(a, "neg"), chain(a, "abs"))
    depth = depths(program, frozenset(), frozenset())
    memory = Memory(depth, frozenset(), {}, {a: None})
    for tv in program.outputs:
        memory.materialise(tv)
    kernels = Kernels(memory, lambda segment: None, frozenset(), frozenset(), frozenset())
    stores = [Store(tv, tv) for tv in program.outputs]
    assert kernels.segment(stores) is kernels.segment(tuple(stores))
    assert kernels.segment(stores[:1]) is not kernels.segment(stores)
    assert [group.stores for group in kernels.groups(stores)] == [tuple(stores)]
