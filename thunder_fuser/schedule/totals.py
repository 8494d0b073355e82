"""What the kernel that walks rows reduces over all of them, and what it computes of that.

T2[r] = max(T0[r, :]);  T3 = sum(T2);  T4 = div(T3, n)

every row                     leaves its term of T3, T2[r], in memory
the blocks that come last     T3 of what all rows left, in the order of the rows; then T4
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from thunder_fuser.analysis.access import Element, Index
from thunder_fuser.analysis.digits import Form
from thunder_fuser.analysis.totals import term_of_total
from thunder_fuser.ir.fusion import following
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.needs import check_places, needs_of
from thunder_fuser.schedule.rejected import Rejected
from thunder_fuser.segment.segment import Segment, Store


@dataclass(frozen=True, eq=False)
class Totals:
    """Each reduction and its term in a row, and the stores of what follows from the results, of one
    element each."""

    reductions: tuple[Element, ...] = ()
    terms: tuple[Element, ...] = ()
    stores: tuple[tuple[Store, Index], ...] = ()


NO_TOTALS = Totals()


def plan_totals(
    segment: Segment,
    totals: Sequence[TensorView],
    reductions: Sequence[TensorView],
    row: Form,
) -> Totals:
    """`totals` behind the `reductions` of each `row`. Raises Rejected where a row needs one."""
    if not totals:
        return NO_TOTALS
    after = following(totals, segment.made)
    if any(tv in after for tv in reductions):
        raise Rejected("a row needs a sum over all rows")
    stores = [s for s in segment.stores if s.value in after]
    if any(prod(s.value.shape) != 1 for s in stores):
        raise Rejected("a sum over all rows is read at several places")
    results = [(tv, _only(tv)) for tv in totals]
    stored = [(s, _only(s.value)) for s in stores]
    _check(segment, totals, reductions, stored)
    terms = tuple(term_of_total(tv, row) for tv in totals)
    return Totals(tuple(results), terms, tuple(stored))


def _only(tv: TensorView) -> Index:
    """The index of the only element."""
    return (Form(),) * tv.ndim


def _check(
    segment: Segment,
    totals: Sequence[TensorView],
    reductions: Sequence[TensorView],
    stores: Sequence[tuple[Store, Index]],
) -> None:
    """What is done once needs no row, and reads nothing that rows write in place."""
    made = (*totals, *reductions)
    needs = needs_of(segment, made, [(s.value, index) for s, index in stores])
    check_places(segment, made, needs)
    once = {s for s, _ in stores}
    written = {s.target for s in segment.stores if s.is_in_place and s not in once}
    for tv, _ in needs.leaves:
        if tv in reductions:
            raise Rejected("a row is read beside a sum over all rows")
        if tv in written:
            raise Rejected("what rows write in place is read behind them")
