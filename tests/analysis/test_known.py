"""What a window tells of axes: checked at every point of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import pytest

from thunder_fuser.analysis.digits import ZERO, Form, add, atom, evaluate, scale, shift
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.analysis.known import (
    ANYWHERE,
    Known,
    bounds,
    decided,
    either,
    narrowed,
    settled,
    share_of,
)
from thunder_fuser.ir.domain import IterDomain, axis

OUTER, INNER = axis(4), axis(32)
PLACE = add(scale(atom(OUTER), 32), atom(INNER))  # of 128 elements
Point = dict[IterDomain, int]


def is_inside(window: Window, point: Point) -> bool:
    return 0 <= evaluate(window.form, point) < window.extent


def points(axes: tuple[IterDomain, ...], known: Known = ANYWHERE) -> Iterator[Point]:
    for values in product(*(range(a.size) for a in axes)):
        point = dict(zip(axes, values, strict=True))
        if all(low <= point[a] <= high for a, (low, high) in known.items()):
            yield point


def drawn(seed: int) -> tuple[tuple[IterDomain, ...], Window, Known]:
    """Up to three axes, a window of their weighted sum, and what is known of one or none."""
    generator = random.Random(seed)
    axes = tuple(axis(generator.randint(2, 6)) for _ in range(generator.randint(1, 3)))
    form = Form(generator.randint(-12, 12))
    for each in axes:
        form = add(form, scale(atom(each), generator.choice([-8, -4, -1, 1, 2, 4, 8])))
    known: dict[IterDomain, tuple[int, int]] = {}
    if generator.random() < 0.5:
        low = generator.randrange(axes[0].size)
        known[axes[0]] = low, generator.randrange(low, axes[0].size)
    return axes, Window(form, generator.randint(1, 30)), known


@pytest.mark.parametrize("seed", range(120))
def test_a_settled_window_is_the_same_test_and_what_it_narrows_holds_inside(seed: int) -> None:
    axes, window, known = drawn(seed)
    made, inside = settled(window, known), narrowed(known, [window])
    low, high = bounds(window.form, known)
    for point in points(axes, known):
        assert low <= evaluate(window.form, point) <= high
        assert is_inside(made, point) == is_inside(window, point)
        if is_inside(window, point):
            assert all(first <= point[a] <= last for a, (first, last) in inside.items())


@pytest.mark.parametrize("seed", range(120))
def test_an_axis_decides_a_window_alone(seed: int) -> None:
    axes, window, known = drawn(seed)
    found = decided(window, known)
    if found is not None:
        chosen, low, high = found
        for point in points(axes, known):
            assert is_inside(window, point) == (low <= point[chosen] <= high)


def test_the_first_quarter_of_a_row_is_the_first_of_four_pieces() -> None:
    assert decided(Window(PLACE, 32)) == (OUTER, 0, 0)
    assert decided(Window(shift(PLACE, -32), 96)) == (OUTER, 1, 3)
    assert decided(Window(PLACE, 40)) is None
    assert decided(Window(ZERO, 1)) is None


def test_inside_of_a_piece_a_window_tells_of_the_rest() -> None:
    inside = narrowed(ANYWHERE, [Window(PLACE, 32)])
    assert inside == {OUTER: (0, 0)}
    assert settled(Window(PLACE, 16), inside) == Window(atom(INNER), 16)
    assert narrowed(inside, [Window(PLACE, 16)]) == {OUTER: (0, 0), INNER: (0, 15)}


def test_a_share_is_that_of_the_points() -> None:
    assert share_of(ANYWHERE) == 1
    assert share_of({OUTER: (1, 3), INNER: (0, 15)}) == 0.375


def test_two_uses_know_what_both_know() -> None:
    assert either({OUTER: (0, 0), INNER: (2, 3)}, {OUTER: (2, 2)}) == {OUTER: (0, 2)}
    assert either({OUTER: (0, 1)}, {OUTER: (1, 3)}) == ANYWHERE


def test_what_is_known_of_axes_stands_in_one_order() -> None:
    """Not in that of a set of axes, which differs from process to process, as would kernels."""
    axes = [axis(9) for _ in range(12)]
    known: Known = {a: (2, 5) for a in axes}
    other: Known = {a: (1, 4) for a in reversed(axes)}
    assert list(either(known, other)) == axes
