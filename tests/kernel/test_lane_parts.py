"""How many of the elements that lanes choose from several places are one access."""

from __future__ import annotations

import pytest

from tests.kernel.test_vectors import Reads
from thunder_fuser.analysis.digits import shift
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.dtypes import DataType


@pytest.mark.parametrize(("half", "together"), [(500, 4), (502, 2), (501, 1)])
def test_halves_are_read_in_the_widest_parts_that_lie_in_one(half: int, together: int) -> None:
    r = Reads(8, DataType.BFloat16)
    r.accesses.leaves_out = True
    place = r.at(1, 0, row=8)
    for move in (half, -half):
        r.accesses.request(r.tv, shift(place, move), (Window(shift(place, move), 2 * half),))
    (load,) = r.accesses.group_loads()
    assert load.access_bytes == 2 * together


def test_parts_are_no_wider_than_memory_is_aligned() -> None:
    r = Reads(8, DataType.BFloat16, alignment=4)
    r.accesses.leaves_out = True
    place = r.at(1, 500, row=8)
    r.accesses.request(r.tv, place, (Window(place, 1000),))
    (load,) = r.accesses.group_loads()
    assert load.access_bytes == 4
