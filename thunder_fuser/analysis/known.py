"""What is known of digits of axes where a value is used.

    cat(rotated[.., :32], x[.., 32:])     of i = 32*i0 + i1{32}, `rotated` is used where i0 = 0

A window of a pad or a cat that one digit decides narrows that digit for everything behind it: other
windows there are settled, and loads are left out elsewhere. Digits are axes as a whole, but where
rows of several axes are walked as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import TypeAlias

from thunder_fuser.analysis.digits import (
    Digit,
    Form,
    Opaque,
    Term,
    ceil_div,
    loads_in,
    substitute,
)
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.ir.domain import IterDomain

Known: TypeAlias = Mapping[Digit, tuple[int, int]]  # the least and the greatest value
ANYWHERE: Known = {}


def bounds(form: Form, known: Known) -> tuple[int, int]:
    """The least and the greatest value where digits are as `known`."""
    if not known:
        return form.bounds
    low = high = form.constant
    for weight, digit in form.terms:
        first, last = known.get(digit) or _reached(digit, known)
        ends = weight * first, weight * last
        low, high = low + min(ends), high + max(ends)
    return low, high


def whole(base: Opaque) -> Digit:
    """What several axes come to, as one digit."""
    return Digit(base, 1, base.limit, base.limit)


def _reached(digit: Digit, known: Known) -> tuple[int, int]:
    """The least and the greatest value of a digit of which nothing is known itself."""
    if isinstance(digit.base, Opaque):
        ends = known.get(whole(digit.base)) or bounds(digit.base.form, known)
        low, high = (end // digit.stride for end in ends)
        if low // digit.extent == high // digit.extent:
            return low % digit.extent, high % digit.extent
    return 0, digit.extent - 1


def settled(window: Window, known: Known) -> Window:
    """A test of fewer digits that is as good where digits are as `known`, if there is one. Loaded
    indices stay those that there are variables of."""
    kept = frozenset[IterDomain]().union(*(p.bases for p in loads_in((window.form,))))
    ends = [(axis, low, high) for d, (low, high) in known.items() if (axis := axis_of(d))]
    pinned = {axis: Form(low) for axis, low, high in ends if low == high and axis not in kept}
    window = Window(substitute(window.form, pinned), window.extent)
    found = decided(window, known) if len(window.form.terms) > 1 else None
    return window if found is None else inside(*found)


def inside(digit: Digit, low: int, high: int) -> Window:
    """The test of a digit for values from `low` to `high`."""
    return Window(Form(-low, ((1, digit),)), high - low + 1)


def beside(index: Sequence[Form], shape: Sequence[int], known: Known = ANYWHERE) -> list[Window]:
    """The tests of an index that may lie beside a tensor of that shape, where digits are as
    `known`."""
    found = []
    for form, size in zip(index, shape, strict=True):
        low, high = bounds(form, known)
        if low < 0 or high >= size:
            found.append(Window(form, size))
    return found


def tests_of(known: Known) -> tuple[Window, ...]:
    """Tests that hold where digits are as `known`, and nowhere else."""
    return tuple(inside(digit, low, high) for digit, (low, high) in known.items())


def axis_of(digit: Digit) -> IterDomain | None:
    """The axis that a digit is; None for a part of one, and of what several come to."""
    return digit.base if digit.is_whole and isinstance(digit.base, IterDomain) else None


def decided(window: Window, known: Known = ANYWHERE) -> tuple[Digit, int, int] | None:
    """The digit that alone decides a window, and its least and its greatest value inside; None
    where others have a say, or where it is never inside."""
    found = along(window, known)
    if found is None:
        return None
    digit, sometimes, always = found
    return (digit, *always) if always == sometimes and always[0] <= always[1] else None


def along(
    window: Window, known: Known = ANYWHERE
) -> tuple[Digit, tuple[int, int], tuple[int, int]] | None:
    """The digit on which a window depends most, and its least and greatest value where the window
    is sometimes inside, and where it is whatever the others are."""
    terms = _told(window.form)
    if not terms:
        return None
    term = max(terms, key=lambda term: abs(term[0]))
    sometimes, always = (_inside(window, term, known, always=a) for a in (False, True))
    return term[1], sometimes, always


def narrowed(known: Known, windows: Iterable[Window]) -> Known:
    """What is known inside of windows that are sometimes inside."""
    found = dict(known)
    for window in windows:
        for term in _told(window.form):
            reached = _inside(window, term, found, always=False)
            if reached != (0, term[1].extent - 1):
                found[term[1]] = reached
    return found


def either(known: Known, other: Known) -> Known:
    """What is known where one or the other is."""
    if not (known and other):
        return ANYWHERE
    found = {}
    for digit in (d for d in known if d in other):  # a set of them has another order each time
        (low, high), (other_low, other_high) = known[digit], other[digit]
        reached = min(low, other_low), max(high, other_high)
        if reached != (0, digit.extent - 1):
            found[digit] = reached
    return found


def share_of(known: Known) -> float:
    """Of all points of the axes, the part where digits of them are as `known`."""
    return prod((high - low + 1) / digit.extent for digit, (low, high) in known.items())


def _told(form: Form) -> list[Term]:
    """The terms of a form of which no memory is asked."""
    return [t for t in form.terms if not any(loads_in((Form(0, (t,)),)))]


def _inside(window: Window, term: Term, known: Known, always: bool) -> tuple[int, int]:
    """Values of the digit of `term` for which a window is always, or sometimes, inside."""
    rest = tuple(t for t in window.form.terms if t is not term)
    least, most = bounds(Form(window.form.constant, rest), known)
    if not always:
        least, most = most, least
    step = abs(term[0])
    low, high = ceil_div(-least, step), (window.extent - 1 - most) // step
    if term[0] < 0:
        low, high = -high, -low
    first, last = known.get(term[1], (0, term[1].extent - 1))
    return max(low, first), min(high, last)
