"""Order schedules: which segments they hold, and what a block owns."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.programs import H200, chain, ints, ordered, total
from tests.schedule.segments import integers, segment_of
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule import ordering
from thunder_fuser.schedule.ordering import MAX_READS, OrderSchedule
from thunder_fuser.schedule.parameters import OrderParameters
from thunder_fuser.segment.segment import Segment


def planned(terms: int, count: int, own: int | None = None) -> OrderSchedule:
    index = integers(terms)
    segment = segment_of([index], *ordered(index, count))
    return ordering.schedule(segment, H200, OrderParameters(own))


def test_it_prints_what_it_makes() -> None:
    assert str(planned(16384, 32000)) == dedent("""\
        order of 16384 places in 32000 groups by T0, 256 groups a block of 1024
          T1 = group_order, T2 = group_keys, T3 = group_ends""")


@pytest.mark.parametrize(
    ("count", "own", "blocks"), [(0, 256, 1), (1, 256, 1), (33792, 256, 132), (33793, 512, 67)]
)
def test_a_block_owns_more_where_there_is_no_multiprocessor_for_each(
    count: int, own: int, blocks: int
) -> None:
    found = planned(60, count)
    assert (found.own, found.blocks) == (own, blocks)


@pytest.mark.parametrize("own", [128, 256, 512])
def test_a_thread_has_at_most_one_group(own: int) -> None:
    found = planned(60, 3000, own)
    assert found.threads >= own
    assert 4 * found.own * found.threads // 32 <= 32768  # bytes of counters


def test_a_long_index_of_many_groups_is_left() -> None:
    index = integers(MAX_READS // 4 + 1)
    assert ordering.reject(segment_of([index], *ordered(index, 1024)), H200) == (
        f"4 blocks would read an index of {MAX_READS // 4 + 1} each"
    )
    assert ordering.reject(segment_of([index], *ordered(index, 768)), H200) is None


index, other, order = integers(60), integers(60), integers(60)
keys = call("group_keys", index, order, count=ints([9]))
mixed = call("group_keys", other, call("group_order", index, count=ints([9])), count=ints([9]))
summed = total(integers(60, 40), 1)
fewer = call("group_ends", ordered(index, 9)[1], count=ints([8]))


@pytest.mark.parametrize(
    ("stores", "reason"),
    [
        ((), "not the order of an index"),
        ((chain(index, "neg"),), "not the order of an index"),
        ((ordered(index, 9)[0], chain(index, "neg")), "or others beside it"),
        ((ordered(index, 9)[0], ordered(other, 9)[0]), "orders of several indices"),
        ((ordered(index, 9)[0], ordered(index, 9)[0]), "orders of several indices"),
        ((keys,), "an order that comes from elsewhere"),
        ((call("group_ends", index, count=ints([9])),), "an order that comes from elsewhere"),
        ((mixed,), "keys of another index than the order"),
        ((fewer,), "keys of another index than the order"),
        ((ordered(summed, 9)[0],), "the index is not in memory"),
    ],
)
def test_what_it_does_not_hold_has_a_reason(stores: tuple[TensorView, ...], reason: str) -> None:
    segment = segment_of([index, other, order], *stores)
    assert reason in str(ordering.reject(segment, H200))


@pytest.mark.parametrize("source", [index, chain(index, "neg")])
def test_an_index_may_lie_apart_and_be_computed(source: TensorView) -> None:
    apart = segment_of([index], ordered(source, 9)[0], lies={index: Layout((60,), (2,), 16)})
    assert ordering.reject(apart, H200) is None


def test_an_order_goes_to_a_buffer_of_its_own() -> None:
    made = ordered(index, 9)[0]
    into: Segment = segment_of([index, other], writes=[(made, other)])
    assert ordering.reject(into, H200) == "the order of an index goes to a buffer of its own"
