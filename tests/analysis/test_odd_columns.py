"""How columns of odd images are cut into vectors and dealt to blocks."""

from __future__ import annotations

import pytest

from thunder_fuser.analysis.kept_rows import KeptRows
from thunder_fuser.analysis.odd_columns import STORED, lanes_of, odd_sharing, tiles_of


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

    def fit(across: int, down: int, cluster: int) -> bool:
        return down <= 16

    assert odd_sharing(column, 4, 8, fit, 32) == (32, 16, 4)
    assert odd_sharing(column, 4, 2, fit, 32) == (32, 16, 2)  # threads with twice the registers
    assert odd_sharing(column, 4, 1, fit, 32) is None


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_rows_of_a_thread_begin_in_one_lane(lanes: int) -> None:
    found = odd_sharing(KeptRows(32, 1, 0, 16), lanes, 1, lambda *_: True, 32)
    assert found == (32, lanes, 1)
