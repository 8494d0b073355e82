"""Where the parts of a shared reduction lie in the workspace."""

from __future__ import annotations

from itertools import pairwise

import pytest

from thunder_fuser.dtypes import DataType
from thunder_fuser.kernel.row_ir import Accumulator
from thunder_fuser.kernel.split_ir import ALIGNMENT, Split, accumulators_of, split_of
from thunder_fuser.ops import op


def accumulator(dtype: DataType) -> Accumulator:
    return Accumulator(f"{dtype}", dtype, op("sum"))


def test_each_accumulator_has_room_for_every_part_of_every_group() -> None:
    found = Split(parts=3, groups=5, width=7).starts(
        [accumulator(DataType.Float), accumulator(DataType.Int), accumulator(DataType.Bool)]
    )
    sizes = [b - a for a, b in pairwise(found)]
    for size, itemsize in zip(sizes, (4, 8, 1), strict=True):
        assert 0 <= size - 3 * 5 * 7 * itemsize < ALIGNMENT
    assert all(start % ALIGNMENT == 0 for start in found)


@pytest.mark.parametrize("dtype", [DataType.BFloat16, DataType.Half])
def test_sixteen_bits_are_kept_as_thirty_two(dtype: DataType) -> None:
    assert accumulator(dtype).itemsize == 4


def test_a_kernel_of_another_template_shares_nothing() -> None:
    assert split_of(None) is None
    assert accumulators_of(None) == ()
