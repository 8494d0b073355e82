"""Sets of windows that exclude each other: where all of one set hold, some of each other does not.

    T0[i0 + 3] where 0 <= i0 + 3 < 56,    T0[i0 - 53] where 0 <= i0 - 53 < 56        of i0{56}

The pieces of a roll are read so: at every index one of them, so that one load does for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeAlias, TypeVar

from thunder_fuser.analysis.digits import Form, Term
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.ir.tensor import TensorView

Windows: TypeAlias = tuple[Window, ...]
Element = TypeVar("Element", bound=tuple[TensorView, object])
_Box: TypeAlias = Mapping[tuple[Term, ...], tuple[int, int]]


def one_at_most(elements: Mapping[Element, Windows]) -> list[list[Element]]:
    """Elements, each under its windows, by tensor and so that no index needs two of a list."""
    found: list[list[Element]] = []
    for element, windows in elements.items():
        for alike in found:
            apart = all(exclude(windows, elements[other]) for other in alike)
            if apart and alike[0][0] is element[0]:
                alike.append(element)
                break
        else:
            found.append([element])
    return found


def exclude(one: Windows, other: Windows) -> bool:
    """True where no index is in both: a sum of digits that both test has no value that passes."""
    first, second = _box(one), _box(other)
    return any(
        max(low, second[terms][0]) > min(high, second[terms][1])
        for terms, (low, high) in first.items()
        if terms in second
    )


def cover(sets: Sequence[Windows]) -> bool:
    """True where every index is in one of some sets that exclude each other: as many values of what
    is tested pass one of them as there are."""
    boxes = [_box(windows) for windows in sets]
    tested = dict.fromkeys(terms for box in boxes for terms in box)
    reached = {terms: Form(0, terms).bounds for terms in tested}
    passing = sum(_values(reached | box) for box in boxes)
    return passing == _values(reached)


def _box(windows: Windows) -> dict[tuple[Term, ...], tuple[int, int]]:
    """The least and the greatest value that passes, by the digits that are summed up."""
    found: dict[tuple[Term, ...], tuple[int, int]] = {}
    for window in windows:
        terms, start = window.form.terms, -window.form.constant
        least, most = found.get(terms, Form(0, terms).bounds)
        found[terms] = max(least, start), min(most, start + window.extent - 1)
    return found


def _values(box: _Box) -> int:
    """The points of a box."""
    return prod(max(high - low + 1, 0) for low, high in box.values())
