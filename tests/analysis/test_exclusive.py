"""Windows that exclude each other, and those that leave nothing out, by trying every index."""

from __future__ import annotations

import random
from itertools import product

import pytest

from thunder_fuser.analysis.digits import Form, add, atom, evaluate, scale, shift
from thunder_fuser.analysis.exclusive import Windows, cover, exclude, one_at_most
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import tensor
from thunder_fuser.ir.domain import axis

ROW, COLUMN = axis(5), axis(7)
POINTS = [{ROW: r, COLUMN: c} for r, c in product(range(5), range(7))]
FORMS = (atom(ROW), atom(COLUMN), add(scale(atom(ROW), 7), atom(COLUMN)))


def below(form: Form, end: int) -> Window:
    return Window(form, end)


def beyond(form: Form, start: int, size: int) -> Window:
    return Window(shift(form, -start), size - start)


def holds(windows: Windows, point: object) -> bool:
    assert isinstance(point, dict)
    return all(0 <= evaluate(w.form, point) < w.extent for w in windows)


def drawn(rng: random.Random) -> Windows:
    forms = rng.sample(FORMS[: rng.choice([2, 3])], rng.randint(1, 2))
    return tuple(Window(shift(f, rng.randint(-6, 3)), rng.randint(1, 9)) for f in forms)


@pytest.mark.parametrize("seed", range(40))
def test_windows_that_exclude_each_other_never_hold_together(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        one, other = drawn(rng), drawn(rng)
        if exclude(one, other):
            assert not any(holds(one, p) and holds(other, p) for p in POINTS)


def test_the_corners_of_a_roll_leave_nothing_out() -> None:
    rows = below(atom(ROW), 2), beyond(atom(ROW), 2, 5)
    columns = below(atom(COLUMN), 3), beyond(atom(COLUMN), 3, 7)
    corners = list(product(rows, columns))
    for k, corner in enumerate(corners):
        assert all(exclude(corner, other) for other in corners[:k])
    assert cover(corners)
    assert not cover(corners[1:])
    assert all(sum(holds(c, p) for c in corners) == 1 for p in POINTS)


def test_a_window_that_overlaps_excludes_nothing() -> None:
    assert not exclude((below(atom(ROW), 3),), (beyond(atom(ROW), 2, 5),))
    assert not exclude((below(atom(ROW), 3),), (beyond(atom(COLUMN), 3, 7),))


def test_elements_of_other_tensors_are_loads_of_their_own() -> None:
    x, y = tensor(DataType.Float, 5), tensor(DataType.Float, 5)
    low, high = (below(atom(ROW), 2),), (beyond(atom(ROW), 2, 5),)
    elements = {(x, "a"): low, (y, "b"): high, (x, "c"): high, (x, "d"): high}
    assert one_at_most(elements) == [[(x, "a"), (x, "c")], [(y, "b")], [(x, "d")]]
