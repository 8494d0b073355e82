"""How many blocks hold a sample until its columns have met."""

from __future__ import annotations

import pytest

from tests.programs import permute, total
from tests.schedule.segments import floats
from thunder_fuser.analysis.kept_rows import KeptRows
from thunder_fuser.analysis.met_columns import (
    MetColumns,
    Sample,
    met_columns_held,
    sample_of_sum,
    samples_met,
)


@pytest.mark.parametrize(
    ("rows", "columns", "planes", "expected"),
    [
        (256, 96, 1, MetColumns(12, 16, 1)),
        (256, 96, 2, MetColumns(6, 32, 2)),
        (577, 96, 1, MetColumns(6, 64, 2)),
        (577, 96, 2, MetColumns(6, 64, 2)),  # alone on a multiprocessor
        (196, 1536, 1, MetColumns(24, 8, 8)),
        (784, 768, 1, None),
        (40, 72, 1, MetColumns(9, 16, 1)),
    ],
)
def test_few_blocks_hold_a_sample(
    rows: int, columns: int, planes: int, expected: MetColumns | None
) -> None:
    column = KeptRows(rows, 4 * planes, 0, 8 * (planes + 1))
    found = met_columns_held(column, columns // 8, 16, 36 * planes, 16)
    assert found == expected


def test_a_sample_is_of_rows_between_its_number_and_its_columns() -> None:
    x = floats(6, 14, 14, 96)
    assert sample_of_sum(total(x, 1, 2)) == Sample(6, 196, 96)
    assert sample_of_sum(total(x, 0, 1)) == Sample(1, 84, 14 * 96)
    assert sample_of_sum(total(x, 0, 2)) is None
    assert sample_of_sum(total(x, 3)) is None


def test_all_columns_of_a_sample_meet() -> None:
    own = total(floats(6, 196, 96), 1)
    assert samples_met(total(own, 1)) == (6, 96)
    assert samples_met(total(own, 0)) is None
    assert samples_met(total(permute(own, 1, 0), 0)) is None
