"""Which planes are images whose rows follow each other."""

from __future__ import annotations

import pytest

from thunder_fuser.analysis.digits import Form, add, atom, scale, unflatten
from thunder_fuser.ir.domain import axis
from thunder_fuser.schedule.columns import ColumnAxes
from thunder_fuser.schedule.images import vectors_of_row
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
    ],
    ids=str,
)
def test_others_are_no_images(strides: tuple[int, int, int]) -> None:
    axes = axes_of(4)
    dense, other = offset(axes, ROWS * PLACES, PLACES, 1), offset(axes, *strides)
    assert vectors_of_row([other], axes) != PLACES // 4
    assert vectors_of_row([dense, other], axes) is None


def test_all_rows_may_be_of_one_image() -> None:
    axes = axes_of(4)
    together = offset(axes, PLACES, IMAGES * PLACES, 1)
    assert vectors_of_row([together], axes) == IMAGES * PLACES // 4
    assert vectors_of_row([], axes) is None
