"""Rows whose elements have an index each: which of them a block adds up."""

from __future__ import annotations

import pytest

from thunder_fuser.analysis.picked_rows import MAX_PLACED, refusal, shared_bytes
from thunder_fuser.dtypes import DataType
from thunder_fuser.target import HOPPER_SHARED_BYTES, SHARED_UNASKED


def test_a_block_has_its_elements_a_counter_of_each_column_and_a_list() -> None:
    """In whole vectors."""
    assert shared_bytes(1, 4096, 4096, DataType.BFloat16) == 4 * 4096 + 2 * 824 + 2 * 4096
    assert shared_bytes(3, 5, 7, DataType.Float) == 4 * 24 + 2 * 8 + 4 * 15
    assert shared_bytes(1, 9, 4, DataType.Int8) == 4 * 4 + 2 * 16 + 9


@pytest.mark.parametrize(
    ("places", "columns", "dtype", "reason"),
    [
        (MAX_PLACED, MAX_PLACED, DataType.Float, None),
        (512, 50257, DataType.BFloat16, None),
        (MAX_PLACED + 1, 8, DataType.Half, "rows of 16385 elements with an index each"),
        (4096, 65536, DataType.BFloat16, "65536 columns, more than a block has"),
        (MAX_PLACED, 32768, DataType.Int, "more than a block has"),
        (9, 9, DataType.Double, "not exact in 64 bits"),
        (0, 9, DataType.Float, "without elements"),
        (9, 0, DataType.Float, "or columns"),
    ],
)
def test_what_no_block_adds_has_a_reason(
    places: int, columns: int, dtype: DataType, reason: str | None
) -> None:
    found = refusal(places, columns, dtype, HOPPER_SHARED_BYTES)
    assert found is None if reason is None else reason in str(found)


def test_a_smaller_block_has_fewer() -> None:
    assert refusal(4096, 4096, DataType.BFloat16, SHARED_UNASKED) is None
    assert "more than a block has" in str(refusal(8192, 8192, DataType.Half, SHARED_UNASKED))
