"""Rows in the order in which they are stored, where that is another than they are read in.

    T5[b, h, t, :] = T0[b, t, h, :] * rsqrt(sum of T0[b, t, h, :]^2)      rows are (b, t, h)

Blocks that follow each other have rows (b, h, t) then, so that neighbours are stored side by side.
That loads lie apart costs less, as each brings whole lines: heads of 256 bytes that were normed,
rotated and stored head by head took 190 us in the order of the loads, and 167 by hand in this one.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import prod

from thunder_fuser.analysis.digits import Form, add, atom, scale, unflatten
from thunder_fuser.analysis.layout import offset_of
from thunder_fuser.schedule.parameters import NEAR
from thunder_fuser.schedule.row_axes import RowAxes
from thunder_fuser.schedule.row_schedule import RowWork
from thunder_fuser.target import SECTOR


def stored_order(work: RowWork) -> RowAxes | None:
    """The axes of such rows; None for rows that lie in order, or have more in common than what is
    stored, and for long ones, of which each is a stretch of memory that suffices."""
    axes = work.axes
    is_beside = work.columns.reductions or work.totals.reductions or work.scans or work.places
    if is_beside or work.met > 1 or axes.is_shifted or axes.row != atom(axes.group):
        return None
    orders = [_of_digits(offset_of(work.segment.layouts[s.target], i), axes) for s, i in work.full]
    sizes = [axes.columns * s.target.dtype.itemsize for s, _ in work.full]
    if not orders or orders[0] is None or any(order != orders[0] for order in orders):
        return None
    if any(size > NEAR or size % SECTOR for size in sizes):
        return None
    return replace(axes, row=orders[0])


def _of_digits(offset: Form, axes: RowAxes) -> Form | None:
    """The row as a function of its number in the order of memory; None where that is the same."""
    terms = [(w, d) for w, d in offset.terms if axes.group in Form(0, ((w, d),)).bases]
    digits = [digit for _, digit in terms]  # by falling weight
    is_all = prod(digit.extent for digit in digits) == axes.rows
    if not is_all or any(digit.base is not axes.group for digit in digits):
        return None
    if all(a.stride > b.stride for a, b in pairwise(digits)):
        return None
    number, row = unflatten(atom(axes.group), [digit.extent for digit in digits]), Form()
    for digit, form in zip(digits, number, strict=True):
        row = add(row, scale(form, digit.stride))
    return row
