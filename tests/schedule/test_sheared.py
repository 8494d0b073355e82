"""Which squares follow the lines of what is stored; each of its elements is stored once, in
whole vectors but for the ends of rows."""

from __future__ import annotations

import pytest
import torch

from tests.devices import ORDERS
from tests.kernel.interpreted import walk
from tests.programs import chain, check, fusion, like, swapped
from tests.schedule.segments import floats, halves, segment_of
from thunder_fuser.ir.build import call
from thunder_fuser.kernel.lower import lower
from thunder_fuser.schedule import map
from thunder_fuser.schedule.parameters import MapParameters
from thunder_fuser.segment.segment import Segment


def shape_of(segment: Segment, busy: int = 1) -> str:
    return str(map.schedule(segment, MapParameters(busy=busy)).classes[0].tile)


@pytest.mark.parametrize("extents", [(337, 64), (346, 128), (2, 341, 328)], ids=str)
def test_rows_that_align_nothing_are_stored_in_squares_that_follow_them(
    extents: tuple[int, ...],
) -> None:
    x = halves(*extents)
    assert shape_of(segment_of([x], chain(swapped(x), "neg"))) == "sheared squares of 64 x 64"
    y = floats(*extents)
    assert shape_of(segment_of([y], chain(swapped(y), "neg"))) == "sheared squares of 32 x 32"


def test_others_do_not() -> None:
    """Aligned ones, what is loaded, a few rows, and what a write in place reads too."""
    aligned, loaded, short = halves(336, 64), halves(64, 337), halves(3, 149, 4096)
    for x in (aligned, loaded, short):
        assert "sheared" not in shape_of(segment_of([x], chain(swapped(x), "neg")))
    x = halves(337, 64)
    assert "sheared" not in shape_of(segment_of([x], chain(swapped(x), "neg")), busy=1 << 40)
    writes = [(chain(x, "neg"), x)]
    assert "sheared" not in shape_of(segment_of([x], chain(swapped(x), "abs"), writes=writes))


@pytest.mark.parametrize("extents", [(337, 64), (346, 136), (2, 341, 72), (341, 332)], ids=str)
def test_every_element_is_stored_once(extents: tuple[int, ...]) -> None:
    x = halves(*extents)
    segment = segment_of([x], chain(swapped(x), "neg"), chain(x, "abs"))
    found = walk(lower(map.schedule(segment, MapParameters()), strict=False))
    assert found.misaligned == []
    assert [set(times.values()) for times in found.written.values()] == [{1}, {1}]


@pytest.mark.sanitizer
@pytest.mark.parametrize(
    ("extents", "dtype"),
    [
        ((337, 64), torch.bfloat16),
        ((337, 64), torch.float32),
        ((346, 136), torch.bfloat16),
        ((341, 332), torch.bfloat16),
    ],
    ids=str,
)
@pytest.mark.usefixtures("device", "one_multiprocessor")
def test_values_beside_what_is_not_turned(extents: tuple[int, ...], dtype: torch.dtype) -> None:
    """As in the gradient of x.t() + y. Rows of a square that its neighbour has are stored once."""
    x, y = (torch.randn(extents).to(dtype) for _ in range(2))
    a, b = like(x, y)
    added = call("add", a, b)
    plan = check(fusion([a, b], chain(swapped(added), "neg"), added), x, y, orders=ORDERS)
    assert "late_element" in plan.sources[0]
