"""What a window tells of axes: checked at every point of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import pytest

from thunder_fuser.analysis.digits import (
    ZERO,
    Digit,
    Form,
    Loaded,
    Opaque,
    add,
    atom,
    divmod_form,
    evaluate,
    gathered,
    scale,
    shift,
)
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
    whole,
)
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import tensor
from thunder_fuser.ir.domain import IterDomain, axis

OUTER, INNER = axis(4), axis(32)
PLACE = add(scale(atom(OUTER), 32), atom(INNER))  # of 128 elements
PLACE_APART = add(atom(OUTER), scale(atom(INNER), 4))  # of them in another order
Point = dict[IterDomain, int]


def is_inside(window: Window, point: Point) -> bool:
    return 0 <= evaluate(window.form, point) < window.extent


def points(axes: tuple[IterDomain, ...], known: Known = ANYWHERE) -> Iterator[Point]:
    for values in product(*(range(a.size) for a in axes)):
        point = dict(zip(axes, values, strict=True))
        if all(low <= value_of(d, point) <= high for d, (low, high) in known.items()):
            yield point


def value_of(digit: Digit, point: Point) -> int:
    return evaluate(Form(0, ((1, digit),)), point)


def whole_of(an_axis: IterDomain) -> Digit:
    """An axis as the digit that it is."""
    ((_, digit),) = atom(an_axis).terms
    return digit


def drawn(seed: int) -> tuple[tuple[IterDomain, ...], Window, Known]:
    """Up to three axes, a window of a weighted sum of them or of digits of what they come to, and
    what is known of one of these or of none."""
    generator = random.Random(seed)
    axes = tuple(axis(generator.randint(2, 6)) for _ in range(generator.randint(1, 3)))
    form, parts = Form(generator.randint(-12, 12)), list(map(atom, axes))
    if generator.random() < 0.5:
        row = Form(generator.randint(0, 3))
        for each in axes:
            row = add(row, scale(atom(each), generator.choice([2, 3, 7])))
        outer, parts = divmod_form(row, generator.randint(2, 6)), []
        parts = [*divmod_form(outer[0], generator.randint(2, 4)), outer[1]]
    for part in parts:
        form = add(form, scale(part, generator.choice([-8, -4, -1, 1, 2, 4, 8])))
    known: dict[Digit, tuple[int, int]] = {}
    digits = [digit for part in parts for _, digit in part.terms]
    if digits and generator.random() < 0.5:
        digit = generator.choice(digits)
        low = generator.randrange(digit.extent)
        known[digit] = low, generator.randrange(low, digit.extent)
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
            assert all(a <= value_of(d, point) <= b for d, (a, b) in inside.items())


@pytest.mark.parametrize("seed", range(120))
def test_a_digit_decides_a_window_alone(seed: int) -> None:
    axes, window, known = drawn(seed)
    found = decided(window, known)
    if found is not None:
        chosen, low, high = found
        for point in points(axes, known):
            assert is_inside(window, point) == (low <= value_of(chosen, point) <= high)


def test_the_first_quarter_of_a_row_is_the_first_of_four_pieces() -> None:
    assert decided(Window(PLACE, 32)) == (whole_of(OUTER), 0, 0)
    assert decided(Window(shift(PLACE, -32), 96)) == (whole_of(OUTER), 1, 3)
    assert decided(Window(PLACE, 40)) is None
    assert decided(Window(ZERO, 1)) is None


def test_inside_of_a_piece_a_window_tells_of_the_rest() -> None:
    outer, inner = whole_of(OUTER), whole_of(INNER)
    inside = narrowed(ANYWHERE, [Window(PLACE, 32)])
    assert inside == {outer: (0, 0)}
    assert settled(Window(PLACE, 16), inside) == Window(atom(INNER), 16)
    assert narrowed(inside, [Window(PLACE, 16)]) == {outer: (0, 0), inner: (0, 15)}


def test_a_loaded_index_stays_the_one_that_there_is_a_variable_of() -> None:
    loaded = gathered(Loaded(tensor(DataType.Int, 4), (atom(OUTER),), 32))
    window = Window(add(loaded, PLACE), 80)
    assert settled(window, {whole_of(OUTER): (2, 2)}) == window
    inner = settled(window, {whole_of(INNER): (5, 5)})
    assert inner == Window(shift(add(loaded, scale(atom(OUTER), 32)), 5), 80)


def test_a_row_of_the_plane_is_in_one_of_its_images() -> None:
    """Of 4 x 32 rows that blocks could walk, the plane has 100, ten of an image."""
    image = divmod_form(PLACE_APART, 10)[0]
    assert image.bounds == (0, 12)
    assert bounds(image, {whole(Opaque(PLACE_APART)): (0, 99)}) == (0, 9)


def test_a_share_is_that_of_the_points() -> None:
    assert share_of(ANYWHERE) == 1
    assert share_of({whole_of(OUTER): (1, 3), whole_of(INNER): (0, 15)}) == 0.375


def test_two_uses_know_what_both_know() -> None:
    outer, inner = whole_of(OUTER), whole_of(INNER)
    assert either({outer: (0, 0), inner: (2, 3)}, {outer: (2, 2)}) == {outer: (0, 2)}
    assert either({outer: (0, 1)}, {outer: (1, 3)}) == ANYWHERE


def test_what_is_known_of_axes_stands_in_one_order() -> None:
    """Not in that of a set of axes, which differs from process to process, as would kernels."""
    digits = [whole_of(axis(9)) for _ in range(12)]
    known: Known = dict.fromkeys(digits, (2, 5))
    other: Known = dict.fromkeys(reversed(digits), (1, 4))
    assert list(either(known, other)) == digits
