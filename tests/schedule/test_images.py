"""Which planes are images whose rows follow each other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from thunder_fuser.analysis.digits import Form, add, atom, scale, unflatten
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import tensor
from thunder_fuser.ir.domain import axis
from thunder_fuser.schedule.column_axes import ColumnAxes
from thunder_fuser.schedule.images import Moved, are_turned, vectors_of_row
from thunder_fuser.schedule.vector_axes import lane_of

IMAGES, ROWS, PLACES = 5, 64, 196


def axes_of(lanes: int) -> ColumnAxes:
    return ColumnAxes(axis(IMAGES * PLACES // lanes), lane_of(lanes), axis(ROWS))


def offset(axes: ColumnAxes, of_image: int, of_row: int, of_place: int) -> Form:
    """Where the places of images lie, so many elements apart."""
    image, place = unflatten(axes.column, (IMAGES, PLACES))
    rows = add(scale(image, of_image), scale(atom(axes.row), of_row))
    return add(rows, scale(place, of_place))


@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_a_row_has_the_places_of_its_image(lanes: int) -> None:
    axes = axes_of(lanes)
    dense = offset(axes, ROWS * PLACES, PLACES, 1)
    assert vectors_of_row([dense, dense], axes) == PLACES // lanes


@pytest.mark.parametrize(
    "strides",
    [
        (ROWS * PLACES, 1, ROWS),  # turned
        (ROWS * 200, 200, 1),  # a gap behind each row
        (2 * ROWS * PLACES, PLACES, 1),  # and behind each image
        (PLACES, IMAGES * PLACES, 1),  # the rows of all images together
        (0, PLACES, 1),  # one image for all
        (ROWS * PLACES, -PLACES, 1),  # the last row first
    ],
    ids=str,
)
def test_others_are_no_images(strides: tuple[int, int, int]) -> None:
    axes = axes_of(4)
    dense, other = offset(axes, ROWS * PLACES, PLACES, 1), offset(axes, *strides)
    assert vectors_of_row([other], axes) != PLACES // 4
    assert vectors_of_row([dense, other], axes) is None


def test_what_lies_place_after_place_is_turned() -> None:
    axes = axes_of(1)
    straight = offset(axes, ROWS * PLACES, PLACES, 1)
    place_after_place = offset(axes, ROWS * PLACES, 1, ROWS)
    assert are_turned([place_after_place], axes)
    assert not are_turned([place_after_place, straight], axes)
    a, b, c = (tensor(DataType.BFloat16, IMAGES, ROWS, PLACES) for _ in range(3))
    reads, writes = [(a, straight), (b, place_after_place)], [(c, straight)]
    moved = Moved(reads, writes, reads[1:])
    assert moved.vectors_of_row(axes) == PLACES
    assert not moved.turns_out
    assert replace(moved, writes=reads[1:]).turns_out
    assert replace(moved, turned=[]).vectors_of_row(axes) is None
    apart = b, offset(axes, ROWS * PLACES, 1, 2 * ROWS)
    assert replace(moved, reads=[reads[0], apart], turned=[apart]).vectors_of_row(axes) is None


def test_all_rows_may_be_of_one_image() -> None:
    axes = axes_of(4)
    together = offset(axes, PLACES, IMAGES * PLACES, 1)
    assert vectors_of_row([together], axes) == IMAGES * PLACES // 4
    assert vectors_of_row([], axes) is None
