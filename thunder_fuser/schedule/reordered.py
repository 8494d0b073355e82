"""Places that both sides of a transpose have side by side, but each in an order of its own.

    T1[h, w, p, q, c] = T0[c, h, p, w, q]       p{2}, w{16}, q{2}: 64 places of an h are neighbours
                                                in T0; in T1 they are too, with c, as w, p, q

Where a run of what is not turned is as long as its memory goes on, what is turned lies at digits of
it. If these are the same places in another order, a block that has all of a `period` of them moves
whole vectors on both sides, and only in shared memory meets each place where the other side has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thunder_fuser.analysis.digits import ZERO, Form, divmod_form
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.schedule.classes import IterationClass
from thunder_fuser.schedule.runs import longest
from thunder_fuser.schedule.tiles import is_turned_by


@dataclass(frozen=True)
class Reordered:
    """A class in which `across` is a run of what is not turned, where in what is turned each of its
    `places` comes, and after how many of them both are at the same place again."""

    group: IterationClass
    across: IterDomain
    places: Form
    period: int


def reordered(group: IterationClass, down: IterDomain, across: IterDomain) -> Reordered | None:
    """Places along `across`, each with all of `down` side by side in what is turned; None where
    these are not all the places of a run, or in the same order."""
    made, joined = longest(group, across)
    turned = (form for _, form in made.accesses if is_turned_by(form, down, joined))
    orders = {_order(form, down, joined) for form in turned}
    (places,) = orders if len(orders) == 1 else (None,)
    if places is None or not _has_all(places, joined.size):
        return None
    moved = [digit for weight, digit in places.terms if weight != digit.stride]
    period = max((digit.stride * digit.extent for digit in moved), default=1)
    return None if period == 1 else Reordered(made, joined, places, period)


def _order(form: Form, down: IterDomain, across: IterDomain) -> Form | None:
    """The part of `across` in units of `down`; None where it is no whole number of them."""
    own = Form(0, tuple(term for term in form.terms if term[1].base is across))
    places, rest = divmod_form(own, down.size)
    return places if rest == ZERO else None


def _has_all(places: Form, size: int) -> bool:
    """True for digits of one axis that make up all of it, and whose weights make up another."""
    strides = [(digit.stride, digit.extent) for _, digit in places.terms]
    weights = [(weight, digit.extent) for weight, digit in places.terms]
    return _reach(strides) == size == _reach(weights)


def _reach(steps: Sequence[tuple[int, int]]) -> int | None:
    """How far steps of so many each go, if each is as long as all shorter ones reach."""
    reach = 1
    for step, extent in sorted(steps):
        if step != reach:
            return None
        reach *= extent
    return reach
