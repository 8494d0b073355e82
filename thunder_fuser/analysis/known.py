"""What is known of axes where a value is used.

    cat(rotated[.., :32], x[.., 32:])     of i = 32*i0 + i1{32}, `rotated` is used where i0 = 0

A window of a pad or a cat that one axis decides narrows that axis for everything behind it: other
windows there are settled, and loads are left out elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import TypeAlias

from thunder_fuser.analysis.digits import Form, Term, atom, ceil_div, shift, substitute
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.ir.domain import IterDomain

Known: TypeAlias = Mapping[IterDomain, tuple[int, int]]  # the least and the greatest index
ANYWHERE: Known = {}


def bounds(form: Form, known: Known) -> tuple[int, int]:
    """The least and the greatest value where axes are as `known`."""
    if not known or form.bases.isdisjoint(known):
        return form.bounds
    low = high = form.constant
    for weight, digit in form.terms:
        first, last = 0, digit.extent - 1
        if digit.is_whole and isinstance(digit.base, IterDomain):
            first, last = known.get(digit.base, (first, last))
        ends = weight * first, weight * last
        low, high = low + min(ends), high + max(ends)
    return low, high


def settled(window: Window, known: Known) -> Window:
    """A test of fewer axes that is as good where axes are as `known`, if there is one."""
    pinned = {axis: Form(low) for axis, (low, high) in known.items() if low == high}
    window = Window(substitute(window.form, pinned), window.extent)
    found = decided(window, known) if len(window.form.terms) > 1 else None
    return window if found is None else inside(*found)


def inside(axis: IterDomain, low: int, high: int) -> Window:
    """The test of an axis for indices from `low` to `high`."""
    return Window(shift(atom(axis), -low), high - low + 1)


def decided(window: Window, known: Known = ANYWHERE) -> tuple[IterDomain, int, int] | None:
    """The axis that alone decides a window, and its least and its greatest index inside; None where
    others have a say, or where it is never inside."""
    found = along(window, known)
    if found is None:
        return None
    axis, sometimes, always = found
    return (axis, *always) if always == sometimes and always[0] <= always[1] else None


def along(
    window: Window, known: Known = ANYWHERE
) -> tuple[IterDomain, tuple[int, int], tuple[int, int]] | None:
    """The axis on which a window depends most, and its least and greatest index where the window is
    sometimes inside, and where it is whatever the others are."""
    terms = _of_axes(window.form)
    if not terms:
        return None
    axis, term = max(terms, key=lambda found: abs(found[1][0]))
    sometimes, always = (_inside(window, axis, term, known, always=a) for a in (False, True))
    return axis, sometimes, always


def narrowed(known: Known, windows: Iterable[Window]) -> Known:
    """What is known inside of windows that are sometimes inside."""
    found = dict(known)
    for window in windows:
        for axis, term in _of_axes(window.form):
            reached = _inside(window, axis, term, found, always=False)
            if reached != (0, axis.size - 1):
                found[axis] = reached
    return found


def either(known: Known, other: Known) -> Known:
    """What is known where one or the other is."""
    if not (known and other):
        return ANYWHERE
    found = {}
    for axis in (a for a in known if a in other):  # a set of them has another order each time
        (low, high), (other_low, other_high) = known[axis], other[axis]
        reached = min(low, other_low), max(high, other_high)
        if reached != (0, axis.size - 1):
            found[axis] = reached
    return found


def share_of(known: Known) -> float:
    """Of all points of the axes, the part where they are as `known`."""
    return prod((high - low + 1) / axis.size for axis, (low, high) in known.items())


def _of_axes(form: Form) -> list[tuple[IterDomain, Term]]:
    """The axes that are terms of a form."""
    return [
        (term[1].base, term)
        for term in form.terms
        if term[1].is_whole and isinstance(term[1].base, IterDomain)
    ]


def _inside(
    window: Window, axis: IterDomain, term: Term, known: Known, always: bool
) -> tuple[int, int]:
    """Indices of the axis of `term` for which a window is always, or sometimes, inside."""
    rest = tuple(t for t in window.form.terms if t is not term)
    least, most = bounds(Form(window.form.constant, rest), known)
    if not always:
        least, most = most, least
    step = abs(term[0])
    low, high = ceil_div(-least, step), (window.extent - 1 - most) // step
    if term[0] < 0:
        low, high = -high, -low
    first, last = known.get(axis, (0, axis.size - 1))
    return max(low, first), min(high, last)
