"""Where rows live: registers, shared memory, or nowhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.programs import H200
from tests.schedule.segments import floats
from thunder_fuser.schedule.parameters import RowParameters
from thunder_fuser.schedule.residency import Residency, Row, held_of_edged, of_rows

X, Y = floats(1), floats(1)


def halves_of(columns: int, count: int = 1) -> Row:
    """A row of 16-bit elements in each of `count` tensors."""
    return Row(columns // 8, 8, dict.fromkeys((X, Y)[:count], 4))


@pytest.mark.parametrize(
    ("columns", "threads"), [(64, 2), (4096, 128), (8192, 256), (16384, 256), (32768, 512)]
)
def test_registers_hold_a_row(columns: int, threads: int) -> None:
    assert of_rows(halves_of(columns), H200) == Residency(threads, frozenset({X}))


@pytest.mark.parametrize(
    ("count", "is_stored", "threads"),
    [(33, False, 512), (34, False, 128), (8, True, 128)],
)
def test_few_rows_have_all_the_threads_that_they_can(
    count: int, is_stored: bool, threads: int
) -> None:
    row = replace(halves_of(4096), count=count, is_stored=is_stored)
    assert of_rows(row, H200) == Residency(threads, frozenset({X}))


@pytest.mark.parametrize(
    ("row", "held"),
    [
        (halves_of(576), 48),
        (halves_of(1536), 48),
        (halves_of(1544), None),  # more than a warp holds so
        (halves_of(576, 2), None),  # registers for as many of one tensor as else
        (replace(halves_of(576), is_stored=True), None),
        (Row(144, 4, {X: 4}), None),
    ],
)
def test_threads_hold_more_of_a_row_with_edges_that_is_only_read(row: Row, held: int) -> None:
    assert held_of_edged(row) == held


@pytest.mark.parametrize(("columns", "threads"), [(16384, 256), (65536, 512)])
def test_long_rows_may_be_read_again_instead(columns: int, threads: int) -> None:
    again = RowParameters(keeps=False)
    assert of_rows(halves_of(columns), H200, again) == Residency(threads)
    assert of_rows(halves_of(8192), H200, again) == of_rows(halves_of(8192), H200)


@pytest.mark.parametrize(
    ("columns", "count", "cluster", "threads", "places"),
    [
        (32776, 1, 2, 288, (0, 1)),  # two rows of it fit no more
        (65536, 1, 2, 512, (0, 1)),  # 3 blocks by shared memory, 2 by registers
        (65536, 2, 4, 256, (1, 1)),
        (16384 * 7, 1, 4, 448, (0, 1)),
        (262144, 1, 8, 512, (0, 1)),  # three blocks at most
    ],
)
def test_a_long_row_is_shared_by_as_few_blocks_as_take_turns_on_a_multiprocessor(
    columns: int, count: int, cluster: int, threads: int, places: tuple[int, int]
) -> None:
    found = of_rows(halves_of(columns, count), H200)
    assert found is not None
    assert (found.cluster, found.threads) == (cluster, threads)
    assert (len(found.registers), len(found.shared)) == places
    assert found.registers | found.shared == set((X, Y)[:count])
    assert (found.slots, found.blocks) == (1, None)


@pytest.mark.parametrize(
    ("count", "columns", "cluster"),
    [(8, 16384, 1), (8, 32768, 8), (64, 65536, 4), (100, 32768, 2), (132, 32768, 1)],
)
def test_few_long_rows_have_blocks_for_every_multiprocessor(
    count: int, columns: int, cluster: int
) -> None:
    found = of_rows(replace(halves_of(columns), count=count), H200)
    assert found is not None
    assert found.cluster == cluster


@pytest.mark.parametrize(
    ("count", "is_shifted", "blocks", "ahead"),
    [(1, False, None, False), (1, True, 6, False), (2, True, 3, True)],
)
def test_the_compiler_is_told_of_blocks_where_weights_are_put_together(
    count: int, is_shifted: bool, blocks: int | None, ahead: bool
) -> None:
    """A row of 50257 elements in 16 bits: 224 threads of four blocks, 48 registers each; of two
    tensors as many as shared memory leaves room for, with registers for weights ahead."""
    row = replace(halves_of(50257, count), weights=8, is_shifted=is_shifted)
    found = of_rows(row, H200)
    assert found is not None
    assert (found.cluster, found.threads, found.blocks) == (4, 224, blocks)
    assert found.shared
    assert found.has_room_ahead is ahead


@pytest.mark.parametrize(
    ("is_shifted", "is_stored", "blocks"),
    [(True, False, 3), (False, False, None), (True, True, None)],
)
def test_the_compiler_is_told_of_blocks_that_only_read_shifted_rows(
    is_shifted: bool, is_stored: bool, blocks: int | None
) -> None:
    row = replace(halves_of(50257, 2), is_shifted=is_shifted, is_stored=is_stored)
    found = of_rows(row, H200)
    assert found is not None
    assert (found.threads, len(found.registers), found.blocks) == (224, 1, blocks)


def test_registers_full_of_weights_leave_more_to_shared_memory() -> None:
    row = halves_of(65536, count=2)
    found = of_rows(replace(row, weights=4), H200)
    assert found is not None
    assert (found.cluster, found.threads, len(found.shared)) == (4, 256, 2)


def test_the_longest_rows_leave_room_for_one_block() -> None:
    found = of_rows(halves_of(524288, count=2), H200)
    assert found is not None
    assert (found.cluster, found.threads, found.blocks) == (8, 1024, 1)
    assert len(found.registers) == len(found.shared) == 1


def test_the_longest_of_all_are_for_sixteen_blocks() -> None:
    """Where a GPU has so many neighbours."""
    row = halves_of(1 << 20, count=2)
    found = of_rows(row, H200)
    assert found is not None
    assert (found.cluster, found.threads, found.blocks) == (16, 1024, 1)
    assert len(found.registers) == len(found.shared) == 1
    assert of_rows(row, replace(H200, max_cluster=8)) == Residency(1024)


def test_a_row_of_many_tensors_is_shared_by_whole_blocks() -> None:
    many = {floats(1): 4 for _ in range(24)}
    found = of_rows(Row(512, 8, many), H200)
    assert found is not None
    assert (found.cluster, found.threads) == (2, 128)
    assert len(found.registers) + len(found.shared) == 24


def test_a_row_that_is_walked_once_or_scanned_stays_in_a_block() -> None:
    row = halves_of(65536)
    assert of_rows(replace(row, walks=1), H200) == Residency(1024, frozenset({X}))
    scanned = of_rows(replace(halves_of(12000), scanned=10), H200)
    assert scanned is not None
    assert scanned.cluster == 1


@pytest.mark.parametrize(
    ("columns", "left", "threads", "cluster"),
    [
        (8192, 8, 256, 1),  # has few of a row anyway
        (10000, 0, 160, 1),
        (10000, 8, 320, 1),
        (16384, 0, 256, 1),
        (16384, 8, 256, 2),  # beside two others
        (50256, 8, 224, 8),
        (262144, 8, 512, 8),  # no three blocks have room for values
        (262144, 0, 512, 8),
    ],
)
def test_threads_that_leave_values_for_each_other_have_less_of_a_long_row(
    columns: int, left: int, threads: int, cluster: int
) -> None:
    found = of_rows(replace(halves_of(columns), left=left), H200)
    assert found is not None
    assert (found.threads, found.cluster) == (threads, cluster)


def test_where_blocks_do_not_reach_each_other_a_row_is_in_one() -> None:
    old = replace(H200, max_cluster=1)
    assert of_rows(halves_of(65536), old) == Residency(1024, frozenset({X}))
    assert of_rows(halves_of(200000), old) == Residency(1024)


def test_shared_memory_holds_what_registers_do_not() -> None:
    found = of_rows(halves_of(65536, count=2), replace(H200, max_cluster=1))
    assert found is not None
    assert len(found.registers) == len(found.shared) == 1
    assert found.registers | found.shared == {X, Y}
    assert (found.threads, found.slots, found.blocks) == (1024, 1, 1)


def test_a_row_beyond_both_is_in_neither() -> None:
    assert of_rows(halves_of(1 << 21, count=2), H200) == Residency(1024)


def test_a_smaller_machine_holds_less() -> None:
    small = replace(H200, shared_bytes=99 * 1024)
    assert of_rows(halves_of(65536, count=2), replace(small, max_cluster=1)) == Residency(1024)
    found, on_hopper = (of_rows(halves_of(262144), target) for target in (small, H200))
    assert found is not None
    assert on_hopper is not None
    assert (found.registers, on_hopper.shared) == ({X}, {X})


def test_blocks_are_as_many_as_few_registers_beside_what_phases_leave_let_in() -> None:
    row = Row(6283, 8, {X: 4}, walks=3, is_stored=True, weights=8, is_shifted=True, left=8)
    found = of_rows(row, H200)
    assert found is not None
    assert (found.cluster, found.threads, found.blocks) == (8, 224, 5)
