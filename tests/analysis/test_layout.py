"""Where elements lie: offsets by strides, places in row-major order."""

from __future__ import annotations

from itertools import product

from thunder_fuser.analysis.digits import Form, atom, evaluate, unflatten
from thunder_fuser.analysis.layout import Layout, dense_strides, linear, offset_of
from thunder_fuser.ir.domain import axis

SHAPE = (3, 1, 4)


def test_places_count_the_elements_in_row_major_order() -> None:
    axes = [axis(size) for size in SHAPE]
    place = linear(SHAPE, [atom(a) for a in axes])
    found = [
        evaluate(place, dict(zip(axes, point, strict=True)))
        for point in product(*map(range, SHAPE))
    ]
    assert found == list(range(12))


def test_the_place_of_an_unflattened_number_is_the_number() -> None:
    number = atom(axis(12))
    assert linear(SHAPE, unflatten(number, SHAPE)) == number


def test_the_offset_in_a_dense_tensor_is_the_place() -> None:
    index = [atom(axis(3)), Form(), atom(axis(4))]
    assert offset_of(Layout(SHAPE, dense_strides(SHAPE)), index) == linear(SHAPE, index)
    assert offset_of(Layout(SHAPE, (0, 0, 2)), index) != linear(SHAPE, index)
