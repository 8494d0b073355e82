"""How many blocks share a row that is walked, and how many rows are walked at a time."""

from __future__ import annotations

import pytest

from thunder_fuser.analysis.walked_rows import (
    WalkedRow,
    blocks_of_row,
    groups_of_rows,
    rows_at_once,
)

SMS = 132


@pytest.mark.parametrize(
    ("columns", "itemsizes", "sums", "blocks", "rows"),
    [
        (4096, (2, 2), 1, 1, 264),
        (512, (2, 2), 1, 1, 8 * SMS),  # short rows have more blocks
        (20480, (2, 2), 1, 1, 264),
        (24576, (2, 2), 1, 2, 124),
        (24576, (2, 2), 2, 2, 62),  # one of each multiprocessor
        (32768, (2, 2), 1, 2, 62),
        (65536, (2,), 1, 4, 62),  # two blocks of each of 124 multiprocessors
        (50257, (2, 2), 1, 8, 30),
        (50257, (2, 2), 2, 8, 30),
        (50257, (2, 2, 2), 1, 8, 15),  # one, else the next rows of two would have no room to come
        (65536, (2, 2), 2, 8, 30),
        (65537, (2, 2), 2, 8, 15),
        (50257, (4, 4), 1, 8, 15),
        (196608, (2, 2), 1, 8, 15),
        (196608, (2, 2), 2, None, None),
    ],
)
def test_the_fewest_blocks_share_a_row_of_which_two_are_on_a_multiprocessor(
    columns: int, itemsizes: tuple[int, ...], sums: int, blocks: int | None, rows: int | None
) -> None:
    row = WalkedRow(columns, itemsizes, sums)
    assert blocks_of_row(row, max_cluster=8) == blocks
    assert blocks is None or rows_at_once(row, blocks, SMS) == rows


@pytest.mark.parametrize(
    ("columns", "planes", "sums", "blocks"),
    [(1536, 2, 2, 4), (1536, 4, 3, 3), (1152, 4, 3, 4), (1024, 2, 2, 6), (1024, 4, 3, 5)],
)
def test_as_many_rows_are_walked_at_once_as_registers_have_room_for(
    columns: int, planes: int, sums: int, blocks: int
) -> None:
    """Of a gated branch and a norm that each sample scales, three sums beside four planes."""
    row = WalkedRow(columns, (2,) * planes, sums, again=(2, 2))
    assert rows_at_once(row, 1, SMS) == blocks * SMS


@pytest.mark.parametrize(
    ("columns", "meets", "sums", "counted", "blocks"),
    [
        *((4096, 1, 1, 0, 2), (4096, 2, 1, 0, 4), (4097, 2, 1, 0, 3), (5000, 2, 1, 0, 3)),
        *((8192, 2, 1, 0, 2), (2048, 2, 1, 0, 3), (4096, 2, 2, 0, 2), (4096, 2, 2, 1, 4)),
    ],
)
def test_threads_that_meet_twice_in_a_turn_have_two_vectors_if_registers_hold_them(
    columns: int, meets: int, sums: int, counted: int, blocks: int
) -> None:
    row = WalkedRow(columns, (2,), sums, again=(2,), meets=meets, counted=counted)
    assert rows_at_once(row, 1, SMS) == blocks * SMS


@pytest.mark.parametrize(
    ("columns", "sums", "blocks", "rows"),
    [(131072, 2, 8, 15), (131080, 2, 16, 7), (262144, 2, 16, 7), (262152, 2, None, None)],
)
def test_a_large_cluster_has_rows_that_no_other_one_holds(
    columns: int, sums: int, blocks: int | None, rows: int | None
) -> None:
    row = WalkedRow(columns, (2, 2), sums)
    assert blocks_of_row(row, max_cluster=16) == blocks
    assert blocks is None or rows_at_once(row, blocks, SMS) == rows


@pytest.mark.parametrize(("max_cluster", "blocks"), [(16, 16), (8, 8)])
def test_a_large_cluster_has_rows_that_leave_no_room_for_weights(
    max_cluster: int, blocks: int
) -> None:
    """96 KiB in each of eight blocks, where no sixteen can be."""
    assert blocks_of_row(WalkedRow(98304, (4, 4), 1), max_cluster) == blocks


def test_without_clusters_one_block_has_the_row_or_none() -> None:
    assert blocks_of_row(WalkedRow(24576, (2, 2), 1), max_cluster=1) == 1
    assert blocks_of_row(WalkedRow(24584, (2, 2), 1), max_cluster=1) is None


def test_what_is_no_word_or_two_is_sent_to_no_other_block() -> None:
    assert blocks_of_row(WalkedRow(24576, (2, 2), 1, is_sent=False), max_cluster=8) == 1
    assert blocks_of_row(WalkedRow(24584, (2, 2), 1, is_sent=False), max_cluster=8) is None


@pytest.mark.parametrize(
    ("multiprocessors", "rows"), [(1, 2), (8, 2), (15, 2), (16, 2), (17, 4), (31, 6)]
)
def test_a_cluster_takes_neighbours(multiprocessors: int, rows: int) -> None:
    assert rows_at_once(WalkedRow(50257, (2, 2), 2), 8, multiprocessors) == rows


@pytest.mark.parametrize(
    ("columns", "sums", "terms", "period", "is_even", "groups"),
    [
        (50257, 2, 4096, 8, False, 88),  # 2.9 turns of the machine, of 47 rows each at most
        (50257, 2, 4096, 8, True, 128),  # 4.3 turns; one of 64 groups would be 2.6 as long
        (50256, 2, 4096, 1, False, 30),  # exactly one
        (50256, 2, 62 * 64, 1, True, 128),
        (32768, 1, 8192, 1, False, 62),
        (32768, 1, 8192, 1, True, 256),
        (50257, 2, 4099, 8, False, 88),
        (50257, 2, 4099, 8, True, None),  # no groups of a prime number of rows
        (50256, 2, 128, 1, False, 8),
    ],
)
def test_rows_are_dealt_to_groups_that_leave_little_of_the_machine_idle(
    columns: int, sums: int, terms: int, period: int, is_even: bool, groups: int | None
) -> None:
    row = WalkedRow(columns, (2, 2), sums)
    blocks = blocks_of_row(row, max_cluster=8)
    assert blocks is not None
    counts = range(period, terms // 16 + 1, period)
    allowed = [count for count in counts if not is_even or terms % count == 0]
    assert groups_of_rows(row, terms, rows_at_once(row, blocks, SMS), allowed) == groups


def test_groups_that_take_runs_of_rows_are_as_many_as_leave_little_idle() -> None:
    row = WalkedRow(384, (2, 2), 2)  # 42 samples of 4096, eight rows a turn, two blocks each
    samples = [42 * parts for parts in (1, 2, 4, 8, 16, 32)]
    assert groups_of_rows(row, 42 * 4096, 2 * SMS, samples, run=8) == 42 * 32  # 5.1 turns
    assert groups_of_rows(row, 528 * 4096, 2 * SMS, [528, 1056], run=8) == 528  # two as it is


def test_a_plane_that_no_input_has_is_one_of_floats() -> None:
    assert WalkedRow(4096, (), 1).lanes == 4
