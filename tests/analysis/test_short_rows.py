"""How many threads a short row has, and how many of its kind a block has at once."""

from __future__ import annotations

import pytest

from thunder_fuser.analysis.short_rows import (
    MAX_HELD,
    MAX_READ,
    MAX_RUN,
    MAX_SIDES,
    MAX_STAGED,
    MAX_VECTORS,
    MIN_SIDES,
    THREADS,
    ImageShare,
    Share,
    is_short,
    rows_at_once,
    share_alone,
    share_beside,
    share_of,
    share_of_image,
    share_of_sides,
    share_scanned,
    threads_of_row,
)
from thunder_fuser.target import WARP


@pytest.mark.parametrize("held", range(1, MAX_HELD + 1))
@pytest.mark.parametrize("vectors", range(1, MAX_VECTORS + 1))
def test_a_row_has_the_fewest_threads_of_a_warp_that_hold_it(vectors: int, held: int) -> None:
    threads = threads_of_row(vectors, held)
    assert threads in (1, 2, 4, 8, 16, 32)
    assert threads * held >= vectors or threads == WARP
    assert threads == 1 or threads // 2 * held < vectors
    assert threads * MAX_HELD >= vectors


def test_a_row_beyond_a_warp_is_not_short() -> None:
    assert is_short(MAX_VECTORS)
    assert not is_short(MAX_VECTORS + 1)


@pytest.mark.parametrize(
    ("threads", "rows", "expected"),
    [
        (8, 1024, [32, 16, 8]),
        (8, 1200, [24, 16, 8]),  # eight rows fill a pair of warps
        (32, 1050, [6, 2]),
        (32, 105, []),
        (2, 64 * 3, [96, 64, 32]),
    ],
)
def test_rows_at_once_divide_the_rows_and_half_as_many_threads_fill_warps(
    threads: int, rows: int, expected: list[int]
) -> None:
    found = rows_at_once(threads, rows)
    assert found == expected
    assert all(n * threads <= THREADS and n * threads // 2 % WARP == 0 for n in found)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (9, Share(1, 1, 9)),
        (20, Share(2, 2, 10)),
        (48, Share(4, 4, 12)),
        (50, Share(4, 2, 14)),
        (63, Share(8, 1, 8)),
        (64, Share(8, 8, 8)),
        (200, Share(16, 2, 14)),
        (257, Share(32, 1, 9)),
        (448, Share(32, 2, 14)),
        (449, None),
        (450, Share(64, 2, 8)),
        (768, Share(64, 4, 12)),
        (897, None),
    ],
)
def test_few_threads_that_take_a_row_out_of_shared_memory_have_nothing(
    columns: int, expected: Share | None
) -> None:
    assert share_of(columns, 2) == expected
    assert share_of(columns, 8) is None


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (9, Share(1, 1, 9)),
        (63, Share(4, 1, 16)),
        (64, Share(4, 8, 16)),
        (256, Share(16, 8, 16)),
        (768, share_of(768, 2)),
    ],
)
def test_threads_have_twice_as_much_beside_sums_where_nothing_is_stored(
    columns: int, expected: Share | None
) -> None:
    assert share_beside(columns, 2, is_stored=False) == expected
    assert share_beside(columns, 2, is_stored=True) == share_of(columns, 2)


@pytest.mark.parametrize(
    ("columns", "planes", "expected"),
    [
        (9, 1, Share(1, 1, 9)),
        (34, 1, Share(1, 2, 34)),
        (50, 1, Share(2, 2, 26)),
        (65, 1, Share(2, 1, 33)),
        (65, 2, Share(4, 1, 17)),
        (65, 4, share_of(65, 2)),
        (257, 1, Share(8, 1, 33)),
        (1153, 1, None),
    ],
)
def test_threads_have_more_of_what_they_only_read(
    columns: int, planes: int, expected: Share | None
) -> None:
    assert share_alone(columns, 2, planes) == expected


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (9, Share(1, 1, 9, runs=True)),
        (20, Share(1, 4, 20, runs=True)),
        (63, Share(4, 1, 16, runs=True)),
        (65, Share(4, 1, 17, runs=True)),
        (257, Share(16, 1, 17, runs=True)),
        (317, Share(16, 1, 20, runs=True)),
        (321, None),  # which a warp scans sooner in vectors of memory
    ],
)
def test_threads_scan_runs(columns: int, expected: Share | None) -> None:
    assert share_scanned(columns, 2) == expected


@pytest.mark.parametrize("columns", range(9, 321))
def test_a_thread_alone_has_no_more_than_registers_hold(columns: int) -> None:
    for share, most in (
        (share_alone(columns, 2, 1), MAX_READ),
        (share_scanned(columns, 2), MAX_RUN),
    ):
        assert share is not None
        assert share.held <= most
        assert share.threads * share.held >= columns


def test_rows_that_are_vectors_of_floats_have_no_share() -> None:
    assert share_of(64, 4) is None
    assert share_of(66, 4) == Share(8, 2, 10)


@pytest.mark.parametrize("columns", range(1, 449))
def test_a_block_has_whole_vectors_and_all_of_a_row(columns: int) -> None:
    share = share_of(columns, 2)
    assert share is not None
    assert share.rows * columns % 8 == 0
    assert columns % share.lanes == 0
    assert share.threads * share.held >= columns
    assert share.held <= MAX_STAGED


def test_threads_of_many_elements_leave_room_for_fewer_blocks() -> None:
    assert [Share(4, 2, held).blocks for held in (8, 10, 12, 14)] == [3, 3, 2, 2]


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [
        (8 * 17, 17, ImageShare(2, 1, 9, sides=136)),  # whose last warp has idle threads
        (16 * 49, 49, ImageShare(4, 1, 13, sides=56)),
        (24 * 49, 49, ImageShare(4, 1, 13, sides=56)),
        (16 * 16, 16, ImageShare(2, 8, 8, sides=128)),
        (3 * 49, 49, None),  # no part fills vectors
        (8 * 9, 9, None),  # memory would wait for such blocks
        (8 * 1021, 63, None),  # too few threads, or too many
    ],
)
def test_a_block_has_as_much_of_an_image_as_fills_its_threads(
    rows: int, columns: int, expected: ImageShare | None
) -> None:
    assert share_of_image(rows, columns, 2) == expected


def test_rows_of_an_image_may_be_vectors_of_floats() -> None:
    assert share_of_image(16 * 16, 16, 4) == ImageShare(2, 4, 8, sides=128)
    assert share_of_image(8 * 17, 17, 8) is None


@pytest.mark.parametrize("columns", range(1, 65))
@pytest.mark.parametrize("sides", [49, 56, 64, 136, 256])
def test_rows_of_an_image_are_whole_vectors_and_have_all_of_a_row(sides: int, columns: int) -> None:
    share = share_of_sides(sides, columns, 2)
    if share is not None:
        assert sides * columns % 8 == 0
        assert columns % share.lanes == 0
        assert share.threads * share.held >= columns
        assert share.held <= MAX_STAGED
        assert MIN_SIDES <= sides * share.threads <= MAX_SIDES
