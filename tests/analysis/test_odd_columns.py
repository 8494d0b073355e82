"""How columns of odd images are cut into vectors and dealt to blocks."""

from __future__ import annotations

import pytest

from thunder_fuser.analysis.kept_rows import KeptRows
from thunder_fuser.analysis.odd_columns import STORED, lanes_of, shares_of, tiles_of


@pytest.mark.parametrize("lanes", [2, 4, 8])
@pytest.mark.parametrize("width", [9, 597, 601, 1517])
def test_tiles_store_every_column_wherever_rows_begin(width: int, lanes: int) -> None:
    for lag in range(lanes):
        vectors = (lag + width + lanes - 1) // lanes
        assert vectors <= tiles_of(width, lanes) * STORED


@pytest.mark.parametrize(
    ("itemsizes", "rows", "width", "images", "lanes"),
    [
        ((2, 2), 64, 1517, 57, [4, 2]),
        ((2, 4), 64, 1517, 57, [4, 2]),  # no wider accesses of floats than sixteen bytes
        ((2,), 21, 1517, 57, []),  # few rows
        ((2,), 37, 1517, 2, [2]),  # else the last vector would leave the plane
        ((2,), 37, 1517, 3, []),
        ((2,), 64, 133, 57, []),  # two tiles of 120, or three of 60
        ((4,), 64, 1517, 57, []),
    ],
)
def test_vectors_are_of_words_and_fill_their_tiles(
    itemsizes: tuple[int, ...], rows: int, width: int, images: int, lanes: list[int]
) -> None:
    assert lanes_of(itemsizes, rows, width, images, has_sums=False) == lanes


def test_words_are_vectors_where_sums_are_beside() -> None:
    assert lanes_of((4,), 64, 1517, 57, has_sums=True) == [2]


def test_as_few_blocks_share_rows_as_have_room() -> None:
    column = KeptRows(768, 2, 0, 16)
    assert shares_of(column, 1517, 4, 8, 32, lambda down, cluster: down <= 16) == (16, 4)
    assert shares_of(column, 1517, 4, 2, 32, lambda down, cluster: down <= 16) == (16, 2)
    assert shares_of(column, 1517, 4, 1, 32, lambda down, cluster: down <= 16) is None


def test_rows_of_a_thread_begin_in_one_lane() -> None:
    column = KeptRows(32, 1, 0, 16)
    assert shares_of(column, 1517, 4, 1, 32, lambda down, cluster: True) == (4, 1)
