"""How far the runs of memory go that squares are over, and what their axes are made of."""

from __future__ import annotations

import pytest

from tests.programs import chain, images, pad, patches, permute
from tests.schedule.segments import floats, halves, segment_of
from thunder_fuser.schedule import map
from thunder_fuser.schedule.parameters import NEVER, MapParameters
from thunder_fuser.segment.segment import Segment


def printed(segment: Segment, busy: int = 1) -> list[str]:
    return str(map.schedule(segment, MapParameters(busy=busy))).splitlines()[1:]


def test_places_of_patches_are_one_run_that_their_rows_divide() -> None:
    x = halves(3, 64, 28, 28)
    assert printed(segment_of([x], chain(patches(x, 2, 2), "neg"))) == [
        "  class over i0{3}, i1{784}, i2{8} and lane{8}, in squares of 64 x 64",
        "    T4[i0, 14*(i1/56) + ((i1/2)%14), 128*((i1/28)%2) + 64*(i1%2) + 8*i2 + lane]",
    ]


def test_so_are_those_of_images_that_patches_become() -> None:
    x = halves(3, 196, 256)
    assert printed(segment_of([x], chain(images(x, 2, 2, 28, 28), "neg"))) == [
        "  class over i0{3}, i1{98}, i2{64} and lane{8}, in squares of 64 x 64",
        "    T4[i0, i2, ((8*i1 + lane)/28), ((8*i1 + lane)%28)]",
    ]


def test_both_axes_may_be_several() -> None:
    """Rows of 6 x 10 lie along one axis before, and along the other one behind."""
    x = floats(6, 10, 6, 10)
    assert printed(segment_of([x], chain(permute(x, 3, 2, 1, 0), "neg"))) == [
        "  class over i0{60}, i1{15} and lane{4}, in squares of 32 x 32",
        "    T2[(i0%10), (i0/10), ((4*i1 + lane)/6), ((4*i1 + lane)%6)]",
    ]


@pytest.mark.parametrize(
    ("extents", "sides", "run"),
    [
        ((2, 32, 6, 128), (2, 2), 128),  # one row is four squares
        ((2, 32, 6, 16), (2, 2), 32),  # two are one
        ((2, 32, 6, 20), (2, 2), 120),  # no number of rows is: all of them
        ((2, 32, 6, 20), (3, 5), 120),
        ((2, 32, 14, 14), (7, 7), 196),
        ((2, 32, 14, 14), (14, 14), 196),
    ],
)
def test_a_run_goes_on_until_it_is_whole_squares(
    extents: tuple[int, ...], sides: tuple[int, int], run: int
) -> None:
    x = floats(*extents)
    (found,) = map.schedule(
        segment_of([x], chain(patches(x, *sides), "neg")), MapParameters()
    ).classes
    assert found.tile is not None
    assert found.tile.down.size == run


def test_the_axis_of_one_run_is_not_taken_by_the_other() -> None:
    """Behind 331 channels lie those of the next place, along which the image lies."""
    x = floats(2, 331, 9, 12)
    assert printed(segment_of([x], chain(patches(x, 3, 3), "neg"))) == [
        "  class over i0{2}, i1{331}, i2{27} and lane{4}, in sheared squares of 32 x 32",
        "    T4[i0, 4*(i2/9) + (((4*i2 + lane)/3)%4), 993*((i2/3)%3) + 331*((4*i2 + lane)%3) + i1]",
    ]


def test_a_run_ends_where_a_window_begins() -> None:
    """Of rows above the image, which are no memory, a thread asks one by one."""
    x = floats(2, 32, 14, 16)
    padded = pad(x, (0, 0, 1, 1))
    for line in printed(segment_of([x], chain(patches(padded, 2, 2), "neg"))):
        assert "256" not in line


def test_few_elements_are_read_one_by_one() -> None:
    """Their kernels wait, and not for memory."""
    x = halves(3, 64, 28, 28)
    first, _ = printed(segment_of([x], chain(patches(x, 2, 2), "neg")), busy=NEVER)
    assert "squares" not in first
