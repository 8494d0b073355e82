"""What the column template refuses: a thread has the sums of its own columns, at its own row."""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.analysis.access import Element, Index
from thunder_fuser.analysis.layout import offset_of
from thunder_fuser.analysis.reductions import is_scan
from thunder_fuser.schedule.column_axes import ColumnAxes
from thunder_fuser.schedule.needs import (
    check_in_place,
    check_places,
    needs_of,
    reductions_read,
)
from thunder_fuser.schedule.rejected import Rejected
from thunder_fuser.segment.segment import Segment, Store


def check_levels(
    segment: Segment,
    reductions: Sequence[Element],
    terms: Sequence[Element],
) -> None:
    """What is read at a row may need what is summed so far, at the same element."""
    own = dict(reductions)
    needs = needs_of(segment, own, terms)
    check_places(segment, own, needs)
    for tv, index in reductions_read(terms, needs, own):
        if not is_scan(tv):
            raise Rejected("a column sum needs another one of the same segment")
        if index != own[tv]:
            raise Rejected("a running sum is read at another element")


def check_ends(
    segment: Segment,
    axes: ColumnAxes,
    results: Sequence[Element],
    full: Sequence[tuple[Store, Index]],
) -> None:
    """Of a plane that ends in a row, threads read and store nothing else that rows have."""
    if axes.elements is None:
        return
    needs = needs_of(segment, segment.long, results)
    moved = [(tv, index) for tv, index in needs.leaves if tv in segment.leaves]
    moved += [(s.target, index) for s, index in full]
    offsets = [offset_of(segment.layouts[tv], index) for tv, index in moved]
    if needs.places or any(axes.row in form.bases and form != axes.flat for form in offsets):
        raise Rejected("a plane that ends in a row, beside what lies otherwise")


def check_columns(
    segment: Segment,
    reductions: Sequence[Element],
    stores: Sequence[tuple[Store, Index]],
) -> None:
    """What is stored once a column may need the sums of that column, but no running ones: a thread
    knows these at each row, and no more behind the last."""
    own = dict(reductions)
    results = [(s.value, place) for s, place in stores]
    for tv, index in reductions_read(results, needs_of(segment, own, results), own):
        if is_scan(tv):
            raise Rejected("a running sum is read behind its rows")
        if index != own[tv]:
            raise Rejected("a column sum is read at another column")


def check_writes(
    segment: Segment,
    stores: Sequence[tuple[Store, Index]],
    walked: Sequence[Element],
) -> None:
    """An in-place target may be read at the column that is being written, after the rows."""
    after = [(s.value, i) for s, i in stores]
    check_in_place(segment, needs_of(segment, segment.long, after).leaves, stores)
    during = needs_of(segment, segment.long, walked).leaves
    check_in_place(segment, during, (), [s for s, _ in stores])
