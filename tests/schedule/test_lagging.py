"""Which squares are loaded late, from the vectors in which their rows begin; all of each row is."""

from __future__ import annotations

import pytest
import torch

from tests.devices import ORDERS
from tests.kernel.interpreted import walk
from tests.programs import chain, check, fusion, like
from tests.schedule.segments import floats, halves, segment_of
from tests.schedule.test_sheared import shape_of, swapped
from thunder_fuser.ir.build import call
from thunder_fuser.kernel.lower import lower
from thunder_fuser.schedule import map
from thunder_fuser.schedule.parameters import MapParameters


@pytest.mark.parametrize(
    ("extents", "rows"), [((64, 337), 57), ((128, 389), 65), ((2, 328, 341), 57)], ids=str
)
def test_rows_that_align_nothing_are_loaded_in_the_vectors_they_begin_in(
    extents: tuple[int, ...], rows: int
) -> None:
    x = halves(*extents)
    expected = f"squares of {rows} x 64 that are loaded late"
    assert shape_of(segment_of([x], chain(swapped(x), "neg"))) == expected
    y = floats(*extents)
    assert "x 32 that are loaded late" in shape_of(segment_of([y], chain(swapped(y), "neg")))


def test_others_are_not() -> None:
    """Aligned ones, what is stored, both sides odd, what has a mask beside it, and what a write in
    place reads too."""
    aligned, stored, odd = halves(64, 336), halves(337, 64), halves(337, 401)
    for x in (aligned, stored, odd):
        assert "late" not in shape_of(segment_of([x], chain(swapped(x), "neg")))
    x = halves(64, 337)
    assert "late" not in shape_of(segment_of([x], chain(swapped(x), "neg")), busy=1 << 40)
    assert "late" not in shape_of(segment_of([x], call("lt", swapped(x), chain(swapped(x), "abs"))))
    writes = [(chain(x, "neg"), x)]
    assert "late" not in shape_of(segment_of([x], chain(swapped(x), "abs"), writes=writes))


def test_every_element_is_loaded_in_whole_vectors() -> None:
    x = halves(32, 325)
    segment = segment_of([x], chain(swapped(x), "neg"))
    found = walk(lower(map.schedule(segment, MapParameters(busy=1)), strict=False))
    assert found.misaligned == []
    assert found.read == {"T0": set(range(32 * 325))}
    assert [set(times.values()) for times in found.written.values()] == [{1}]


@pytest.mark.sanitizer
@pytest.mark.parametrize(
    ("extents", "dtype"),
    [
        ((64, 337), torch.bfloat16),
        ((64, 337), torch.float32),
        ((72, 346), torch.bfloat16),
    ],
    ids=str,
)
@pytest.mark.usefixtures("device", "one_multiprocessor")
def test_values_of_two_that_lag_beside_what_is_not_turned(
    extents: tuple[int, ...], dtype: torch.dtype
) -> None:
    x, y = (torch.randn(extents).to(dtype) for _ in range(2))
    z = torch.randn(extents).to(dtype).mT.contiguous()
    a, b, c = like(x, y, z)
    made = call("add", call("mul", swapped(a), swapped(b)), c)
    plan = check(fusion([a, b, c], made), x, y, z, orders=ORDERS)
    assert plan.sources[0].count("tf::late_vector<") == 2
