"""Threads that share the rows of a column, and what each needs."""

from __future__ import annotations

import pytest

from thunder_fuser.analysis.kept_rows import (
    SCRATCH,
    KeptRows,
    are_kept_whole,
    blocks_of_image,
    is_part_of_warp,
    lies_in_warps,
    parts_of_columns,
    sharing,
)


@pytest.mark.parametrize(
    ("rows", "kept", "limit", "down"),
    [(64, 8, 32, 16), (65, 8, 32, 32), (64, 8, 64, 8), (3, 4, 32, 1), (5, 64, 32, 8)],
)
def test_as_few_threads_share_a_column_as_have_registers(
    rows: int, kept: int, limit: int, down: int
) -> None:
    assert KeptRows(rows, kept, 0, 0).threads(limit) == down


def test_sums_beside_take_a_register_of_every_row() -> None:
    assert KeptRows(65, 8, 2, 40).registers(32) == 3 * (8 + 2) + SCRATCH + 40


@pytest.mark.parametrize(
    ("rows", "kept", "across", "down"),
    [
        (21, 4, 8, 8),  # 3 rows of each thread: with half of them more would do the rest
        (64, 4, 8, 16),
        (24, 2, 32, 2),  # two planes of single elements
        (9, 1, 32, 1),  # a warp that waits for nobody
        (9, 4, 8, 8),
        (5, 1, 2, 4),  # no more threads than rows
    ],
)
def test_few_rows_are_left_to_few_threads(rows: int, kept: int, across: int, down: int) -> None:
    column = KeptRows(rows, kept, 2, 40)
    found = column.threads()
    while column.may_deepen(across, found, is_turned=True):
        found *= 2
    assert found == down


@pytest.mark.parametrize(("rows", "across", "down"), [(21, 8, 16), (24, 32, 4), (9, 32, 4)])
def test_of_columns_that_are_not_turned_they_are_more(rows: int, across: int, down: int) -> None:
    found = 1
    while KeptRows(rows, 2, 2, 40).may_deepen(across, found, is_turned=False):
        found *= 2
    assert found == down


@pytest.mark.parametrize(
    ("across", "down", "parts"),
    [(8, 64, 16), (1, 32, 1), (2, 16, 1), (16, 2, 1), (32, 8, None), (64, 2, None), (8, 2, None)],
)
def test_the_threads_of_a_warp_have_one_part_of_a_column(
    across: int, down: int, parts: int | None
) -> None:
    assert parts_of_columns(across, down, values=1) == parts


def test_states_of_several_values_are_parts_of_each_thread() -> None:
    assert parts_of_columns(8, 64, values=4) is None


@pytest.mark.parametrize(
    ("vectors", "row_bytes", "are_whole"),
    [
        (49, 98, True),
        (49, 784, True),
        (225, 450, True),
        (441, 882, False),  # more threads across than two of which have a place
        (4, 32, False),  # less than two sectors
        (64, 512, False),  # whole lines
        (98, 1568, False),  # of which one more is little
    ],
)
def test_images_of_short_rows_that_are_no_lines_are_kept_as_a_whole(
    vectors: int, row_bytes: int, are_whole: bool
) -> None:
    assert are_kept_whole(vectors, row_bytes) == are_whole


@pytest.mark.parametrize(
    ("across", "is_part", "lies"), [(8, True, True), (64, False, True), (49, False, False)]
)
def test_neighbours_and_warps(across: int, is_part: bool, lies: bool) -> None:
    assert (is_part_of_warp(across), lies_in_warps(across)) == (is_part, lies)
    assert (parts_of_columns(across, 64, values=1) is not None) == is_part


@pytest.mark.parametrize(
    ("column", "vectors", "max_cluster", "found"),
    [
        (KeptRows(512, 1, 0, 0), 49, 4, [(10, 1), (9, 1), (10, 2), (9, 2), (10, 4), (9, 4)]),
        (KeptRows(66, 2, 0, 0), 49, 8, [(10, 1), (9, 1)]),  # too few for two blocks
        (KeptRows(514, 1, 0, 0), 225, 8, [(2, 1), (2, 2)]),  # and a number that two divide
        (KeptRows(79, 1, 0, 0), 49, 8, [(9, 1)]),
        (KeptRows(256, 8, 0, 0), 12, 2, [(42, 1), (41, 1)]),  # in two, of three rows each
    ],
)
def test_the_fewest_blocks_of_which_each_thread_keeps_enough(
    column: KeptRows, vectors: int, max_cluster: int, found: list[tuple[int, int]]
) -> None:
    assert list(blocks_of_image(column, vectors, max_cluster)) == found


def test_as_few_blocks_share_long_columns_as_fit() -> None:
    """Wider ones first, if that takes no more registers of a thread."""
    column = KeptRows(1024, 4, 2, 20)
    assert sharing(column, [8, 4], [2, 4, 8], column.fit_twice) == (8, 32, 4)
    assert sharing(column, [8, 4], [2], column.fit_twice) == (4, 64, 2)
    assert sharing(column, [8], [], column.fit_twice) is None


def test_blocks_do_not_share_columns_of_which_a_thread_would_have_few_rows() -> None:
    asked: list[int] = []

    def fit(across: int, down: int, cluster: int) -> bool:
        asked.append(cluster)
        return False

    assert sharing(KeptRows(64, 32, 0, 0), [8], [2, 4, 8], fit) is None
    assert asked == []
    assert sharing(KeptRows(64, 16, 0, 0), [8], [2, 4], fit) is None
    assert asked == [2, 4]  # of threads with twice the registers


def test_registers_say_how_many_blocks_there_are() -> None:
    assert KeptRows(8, 4, 2, 20).blocks(128, 8) == 65536 // (50 * 128)
    assert KeptRows(8, 1, 0, 0).blocks(2048, 8) == 0  # of a block that none is


def test_a_block_has_long_columns_alone_with_twice_the_registers() -> None:
    assert KeptRows(1024, 8, 2, 20).fits_alone(4)
    assert not KeptRows(1024, 8, 2, 20).fits_alone(8)
