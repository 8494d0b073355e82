"""Where rows are while blocks walk them with sums down their columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.programs import H200
from tests.schedule.segments import floats
from tests.schedule.test_residency import X, Y, halves_of
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.parameters import RowParameters
from thunder_fuser.schedule.residency import Residency, Row
from thunder_fuser.schedule.walking import beside_sums

ALONE = replace(H200, max_cluster=1)  # where blocks do not reach each other


@pytest.mark.parametrize(
    ("columns", "threads", "slots", "blocks"),
    [
        (64, 128, 6, 8),  # 2 KiB in a block's slot, and more blocks of short rows
        (4096, 512, 6, 2),
        (16384, 256, 3, 2),  # 32 KiB a row
        (24576, 512, 3, 1),
    ],
)
def test_rows_are_on_their_way_while_one_is_summed(
    columns: int, threads: int, slots: int, blocks: int
) -> None:
    many = RowParameters(slots=6)
    found = beside_sums(halves_of(columns), sums=1, turns=64, target=ALONE, parameters=many)
    assert found == Residency(threads, frozenset(), frozenset({X}), slots, blocks)
    preferred = beside_sums(halves_of(columns), sums=1, turns=64, target=ALONE)
    assert preferred == Residency(threads, frozenset(), frozenset({X}), 2, blocks)


@pytest.mark.parametrize(
    ("groups", "slots", "blocks"),
    [(264, 2, 2), (200, 2, 2), (132, 3, 1), (64, 5, 1), (32, 8, 1)],
)
def test_fewer_blocks_have_more_rows_on_their_way(groups: int, slots: int, blocks: int) -> None:
    """As many in all as where two blocks are on each multiprocessor."""
    found = beside_sums(replace(halves_of(4096), count=64 * groups), 1, 64, H200)
    assert found is not None
    assert (found.slots, found.blocks) == (slots, blocks)


@pytest.mark.parametrize(
    ("columns", "threads", "more"),
    [(2560, 320, 352), (3072, 384, 416), (4096, 512, 512), (5000, 320, 320), (64, 128, 128)],
)
def test_each_warp_of_a_block_has_work_unless_one_is_to_be_spare(
    columns: int, threads: int, more: int
) -> None:
    found = [
        beside_sums(halves_of(columns), 1, 64, H200, RowParameters(spare=wanted))
        for wanted in (False, True)
    ]
    assert [each.threads for each in found if each] == [threads, more]


@pytest.mark.parametrize(
    ("groups", "sums", "blocks"),
    [(132 * 6, 2, 6), (132 * 8, 2, 4), (132 * 8, 1, 8), (132 * 3, 1, 3)],
)
def test_short_rows_have_room_for_all_blocks_that_there_are(
    groups: int, sums: int, blocks: int
) -> None:
    """Registers hold two sums of six blocks each, not of eight, which are taken to be four then."""
    row = halves_of(1024, 2)
    row = replace(row, again=frozenset(row.loads), count=64 * groups)
    found = beside_sums(row, sums, 64, H200)
    assert found is not None
    assert (found.threads, found.blocks) == (128, blocks)


@pytest.mark.parametrize(("turns", "expected"), [(64, {Y}), (1024, {Y}), (1025, set())])
def test_what_sums_wait_for_is_gathered_where_all_rows_of_a_block_have_room(
    turns: int, expected: set[TensorView]
) -> None:
    row = replace(halves_of(4096), waited={Y: 4}, count=264 * turns)
    found = beside_sums(row, 1, turns, H200)
    assert found is not None
    assert found.gathered == expected


def test_what_is_gathered_leaves_less_room_for_rows() -> None:
    """Each of 8 KiB."""
    row, many = replace(halves_of(4096), count=132 * 64), RowParameters(walks=1, slots=8)
    target = replace(H200, shared_bytes=8 * 1024 * (1 + 7))
    found = [
        beside_sums(replace(row, waited=waited), 1, 64, target, many) for waited in ({}, {Y: 4})
    ]
    assert [each.slots for each in found if each] == [7, 6]


@pytest.mark.parametrize("groups", [8, 264])
def test_rows_that_nothing_is_read_of_are_walked_too(groups: int) -> None:
    found = beside_sums(Row(512, 8, {}, count=64 * groups), 1, 64, H200)
    assert found is not None
    assert found.registers == frozenset()


def test_a_block_has_no_more_slots_than_rows() -> None:
    found = beside_sums(halves_of(4096), 1, 3, H200, RowParameters(slots=6))
    assert found is not None
    assert found.slots == 3


@pytest.mark.parametrize(
    ("columns", "count", "sums", "threads", "kept", "stowed"),
    [
        (4096, 1, 1, 512, True, False),
        (4096, 2, 2, 256, True, False),
        (16384, 1, 1, 256, False, True),  # eight vectors a thread
        (24576, 1, 1, 512, False, True),
        (24576, 2, 1, 512, False, False),  # two rows fill the shared memory
    ],
)
def test_what_is_read_again_beside_sums_is_in_registers_where_they_are_free(
    columns: int, count: int, sums: int, threads: int, kept: bool, stowed: bool
) -> None:
    """And the weights, which are in shared memory where that has room instead."""
    row = halves_of(columns, count=count)
    row = replace(row, again=frozenset(row.loads), weights=4)
    found = beside_sums(row, sums, 64, ALONE)
    assert found is not None
    assert (found.threads, found.shared) == (threads, row.again)
    assert (found.registers, found.weights) == ((row.again, True) if kept else (frozenset(), False))
    assert found.stowed == stowed
    again = beside_sums(row, sums, 64, ALONE, RowParameters(keeps=False))
    assert again is not None
    assert (again.registers, again.weights, again.stowed) == (frozenset(), False, False)
    assert again.threads == (512 if stowed else found.threads)


def test_weights_that_only_memory_holds_are_loaded_by_one_block_beside_many_sums() -> None:
    """Two blocks of rmsnorm's 12288 columns spilled 312 bytes a thread: 288 us for 157."""
    row = halves_of(12288, count=2)
    row = replace(row, again=frozenset(row.loads), weights=4)
    found = beside_sums(row, 1, 64, ALONE)
    assert found is not None
    assert (found.threads, found.blocks, found.stowed) == (512, 1, True)
    unread = beside_sums(replace(row, weights=0), 1, 64, ALONE)
    assert unread is not None
    assert (unread.threads, unread.blocks) == (384, 2)


@pytest.mark.parametrize(
    ("vectors", "threads", "held"),
    [(512, 512, 1), (576, 288, 2), (513, 288, 2), (544, 288, 2), (1026, 352, 3), (130, 160, 1)],
)
def test_few_threads_that_walk_rows_have_less_to_do_than_others(
    vectors: int, threads: int, held: int
) -> None:
    found = beside_sums(halves_of(8 * vectors), 1, 64, H200)
    assert found is not None
    assert found.threads == threads
    assert -(-vectors // threads) == held


def test_little_shared_memory_has_fewer_slots_or_none() -> None:
    row = halves_of(16384)
    found = beside_sums(row, 1, 64, replace(H200, shared_bytes=99 * 1024))
    assert found is not None
    assert (found.slots, found.blocks) == (2, 1)
    assert beside_sums(row, 1, 64, replace(ALONE, shared_bytes=64 * 1024)) is None


def test_more_sums_leave_room_for_shorter_rows_only() -> None:
    assert beside_sums(halves_of(16384, count=2), 1, 64, ALONE) is not None
    assert beside_sums(halves_of(16384, count=2), 3, 64, ALONE) is None


def normed(columns: int, **others: Any) -> Row:
    """A row of the gradient of a norm in 16-bit elements, with weights."""
    row = halves_of(columns, count=2)
    return replace(row, again=frozenset(row.loads), weights=4, **others)


@pytest.mark.parametrize(
    ("columns", "sums", "cluster", "threads", "blocks", "stowed"),
    [
        (20480, 1, 1, 512, 1, True),
        (24576, 2, 2, 512, 1, True),
        (32768, 1, 2, 512, 1, True),
        (32768, 2, 2, 512, 1, True),
        (50256, 1, 8, 416, 2, True),  # four blocks leave no room for the weights
        (50256, 2, 8, 224, 2, True),
        (65536, 2, 8, 256, 2, True),
        (81920, 2, 8, 320, 1, True),
        (131072, 1, 8, 512, 1, True),
    ],
)
def test_longer_rows_are_walked_by_two_blocks_or_by_more_of_which_two_are_on_a_multiprocessor(
    columns: int, sums: int, cluster: int, threads: int, blocks: int, stowed: bool
) -> None:
    found = beside_sums(normed(columns), sums, 64, H200)
    assert found is not None
    assert (found.cluster, found.threads, found.blocks) == (cluster, threads, blocks)
    assert (found.shared, found.slots, found.stowed) == ({X, Y}, 2, stowed)


@pytest.mark.parametrize(("count", "cluster"), [(64 * 64, 2), (32 * 64, 4), (16 * 64, 8)])
def test_few_rows_have_blocks_for_half_of_the_machine(count: int, cluster: int) -> None:
    found = beside_sums(normed(32768, count=count), 1, 64, H200)
    assert found is not None
    assert found.cluster == cluster


def test_a_cluster_that_is_asked_for_walks_rows_of_which_each_block_has_enough() -> None:
    row = normed(16384)
    found = [beside_sums(row, 1, 64, H200, RowParameters(cluster=n)) for n in (None, 1, 2, 4, 8)]
    assert [None if r is None else r.cluster for r in found] == [1, 1, 2, 4, 1]
    assert beside_sums(normed(50256), 1, 64, H200, RowParameters(cluster=1)) is None


def test_two_blocks_of_a_cluster_leave_room_for_their_next_rows_in_the_cache() -> None:
    """Those of three tensors of 50256 columns, two blocks of eight on a multiprocessor, took 264 us
    for 210 of four blocks, each alone."""
    two = normed(50256)
    three = replace(two, loads={**two.loads, floats(1): 4})
    found = [beside_sums(row, 2, 24, H200) for row in (two, three)]
    assert [(r.cluster, r.blocks, r.stowed) for r in found if r] == [(8, 2, True), (4, 1, True)]


@pytest.mark.parametrize(("max_cluster", "expected"), [(16, (16, True)), (8, (8, False))])
def test_more_blocks_have_a_row_where_fewer_do_not_have_the_weights(
    max_cluster: int, expected: tuple[int, bool]
) -> None:
    row = replace(normed(100000), vectors=25000, lanes=4)
    found = beside_sums(row, 2, 48, replace(H200, max_cluster=max_cluster))
    assert found is not None
    assert (found.cluster, found.stowed) == expected


def test_few_rows_that_eight_blocks_hold_have_sixteen_for_half_of_the_machine() -> None:
    """Seven groups."""
    three = replace(normed(131072, count=7 * 74), loads={X: 4, Y: 4, floats(1): 4})
    found = beside_sums(three, 2, 74, H200)
    assert found is not None
    assert (found.cluster, found.slots, found.stowed) == (16, 3, True)


@pytest.mark.parametrize("columns", [196608, 262144])
def test_sixteen_blocks_walk_rows_that_eight_do_not_hold(columns: int) -> None:
    found = beside_sums(normed(columns), 2, 64, H200)
    assert found is not None
    assert (found.cluster, found.blocks, found.slots) == (16, 1, 2)
    assert beside_sums(normed(columns), 2, 64, replace(H200, max_cluster=8)) is None


def test_a_block_alone_has_room_for_weights_beside_three_planes() -> None:
    three = replace(normed(262144), loads={X: 4, Y: 4, floats(1): 4}, again=frozenset())
    found = beside_sums(three, 2, 37, H200)
    assert found is not None
    assert (found.cluster, found.slots, found.stowed) == (16, 2, True)


def test_a_block_alone_leaves_room_for_all_that_it_sends() -> None:
    """Those of one sum or two fit beside the weights, those of twenty do not."""
    three = replace(normed(262144), loads={X: 4, Y: 4, floats(1): 4}, again=frozenset())
    stowed = [
        found.stowed
        for states in (8, 80)
        if (found := beside_sums(replace(three, states=states), 2, 37, H200)) is not None
    ]
    assert stowed == [True, False]


def test_rows_beyond_a_cluster_or_whose_sums_are_not_sent_are_walked_by_none() -> None:
    assert beside_sums(normed(524288), 2, 64, H200) is None
    assert beside_sums(normed(50256, is_sent=False), 1, 64, H200) is None
    assert beside_sums(normed(50256), 1, 64, ALONE) is None
    halves = beside_sums(normed(32768), 1, 64, replace(H200, max_cluster=2))
    assert halves is not None
    assert halves.cluster == 2
