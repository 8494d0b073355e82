"""Which running sums down columns threads share, and how many rows each has."""

from __future__ import annotations

from math import prod

import pytest

from tests.programs import H200
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.domain import axis
from thunder_fuser.schedule.column_axes import ColumnAxes
from thunder_fuser.schedule.column_scans import WINDOW, scanned
from thunder_fuser.schedule.vector_axes import lane_of


def shares(shape: tuple[int, ...], dim: int, lanes: int, may: bool = True) -> tuple[int, ...]:
    """Threads across and down, blocks of a column, rows of a thread: of 16-bit elements."""
    tv = call("cumsum", tensor(DataType.BFloat16, *shape), dim=dim, reverse=False)
    columns = prod(shape) // shape[dim]
    axes = ColumnAxes(axis(columns // lanes), lane_of(lanes), axis(shape[dim]))
    made = scanned(axes, [tv], (lanes + 1) // 2, 2, H200, may)
    return made.across, made.down, made.splits, made.batch


@pytest.mark.parametrize(
    ("shape", "dim", "lanes", "expected"),
    [
        ((8, 1 << 23), 0, 4, (128, 1, 1, 8)),  # a thread has all rows at once
        ((1783, 49, 768), 1, 4, (128, 1, 1, 7)),
        ((13421, 5000), 0, 4, (16, 8, 53, 32)),
        ((16384, 4097), 0, 1, (32, 4, 64, 64)),
        ((227, 256, 1152), 1, 4, (32, 1, 1, 16)),  # enough threads alone
        ((151, 577, 768), 1, 4, (32, 1, 1, 31)),
        ((15, 577, 768), 1, 4, (16, 8, 3, 25)),
        ((655, 1024, 100), 1, 4, (25, 5, 7, 30)),  # whole rows
        ((1 << 20, 64), 0, 4, (16, 32, 1024, 32)),  # long chains
        ((10_000_000, 3), 0, 1, (3, 168, 931, 64)),
        ((1335, 50257), 0, 1, (128, 2, 21, 32)),  # few rows of single elements
    ],
)
def test_rows_that_no_thread_has_at_once_are_shared(
    shape: tuple[int, ...], dim: int, lanes: int, expected: tuple[int, ...]
) -> None:
    assert shares(shape, dim, lanes) == expected
    assert shares(shape, dim, lanes, may=False)[1:3] == (1, 1)


def test_a_block_has_a_thread_for_each_that_it_waits_for() -> None:
    for columns in (1, 3, 31, 32, 100, 1000):
        across, down, _, _ = shares((1 << 16, columns), 0, 1)
        assert across * down >= WINDOW
