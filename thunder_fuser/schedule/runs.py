"""The runs of memory that squares lie along: the axes along which large accesses are contiguous.

    T1[b, h, w, p, q, c] = T0[b, c, h, p, w, q]      T0 lies along q{2}, T1 along c{256}
    T1[b, digits of m, c] = T0[b, c, m]              T0 lies along m{784}, which h, p, w, q make up

A short run is made one with the axes along which what lies along it goes on, whatever other
accesses make of these: digits of the new axis say where each of their rows begins.
"""

from __future__ import annotations

from thunder_fuser.analysis.digits import Base, Form, Loaded, Opaque, loads_in
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.classes import IterationClass
from thunder_fuser.schedule.order import merge_pair


def large_accesses(group: IterationClass, part: int = 2) -> list[tuple[TensorView, Form]]:
    """The loads and stores of tensors that are no less than half of the largest, or such a part."""
    accesses, layouts = group.accesses, group.segment.layouts
    largest = max(layouts[tv].numel * tv.dtype.itemsize for tv, _ in accesses)
    return [a for a in accesses if part * layouts[a[0]].numel * a[0].dtype.itemsize >= largest]


def runs_of(group: IterationClass) -> tuple[IterDomain, ...]:
    """The axes along which large accesses are contiguous, outermost first."""
    forms = [form for _, form in large_accesses(group)]
    return tuple(a for a in group.axes if any(weight(form, a) == 1 for form in forms))


def lengthened(group: IterationClass, unit: int) -> IterationClass:
    """`group` with each run as long as its memory goes on, or as a whole number of units is. Where
    two go on along one axis the shorter one has it."""
    for run in sorted(runs_of(group), key=lambda a: a.size):
        outer = _beyond(group, run) if run.size % unit else None
        if outer is not None:
            return lengthened(merged(group, outer, run)[0], unit)
    return group


def longest(group: IterationClass, run: IterDomain) -> tuple[IterationClass, IterDomain]:
    """The class in which a run is as long as its memory goes on, and that."""
    while (outer := _beyond(group, run)) is not None:
        group, run = merged(group, outer, run)
    return group, run


def merged(
    group: IterationClass, outer: IterDomain, run: IterDomain
) -> tuple[IterationClass, IterDomain]:
    """The class in which two axes are one, and that."""
    made = merge_pair(group, outer, run)
    (joined,) = set(made.axes) - set(group.axes)
    return made, joined


def _beyond(group: IterationClass, run: IterDomain) -> IterDomain | None:
    """The axis along which all that lies along a run goes on behind it."""
    along = [form for _, form in large_accesses(group) if weight(form, run) == 1]
    runs = runs_of(group)
    for outer in group.axes:
        goes_on = all(weight(form, outer) == run.size for form in along)
        if goes_on and outer not in runs and not _is_told_apart(group, outer, run):
            return outer
    return None


def _is_told_apart(group: IterationClass, *walked: IterDomain) -> bool:
    """True where what is read where, or where it is read at all, depends on one of the axes beyond
    a place in memory."""
    axes = frozenset(walked)
    is_cut = any(form.bases & axes for form in group.windows)
    return is_cut or any(loaded.bases & axes for loaded in loads_in(group.forms))


def is_plain(form: Form, walked: IterDomain) -> bool:
    """True where the form does not divide the axis, nor has a loaded index that depends on it."""
    return all(
        digit.is_whole if digit.base is walked else not _divides(digit.base, walked)
        for _, digit in form.terms
    )


def _divides(base: Base, walked: IterDomain) -> bool:
    """True where the axis is inside a division or in an index that a tensor holds."""
    match base:
        case Opaque(form):
            return walked in form.bases
        case Loaded():
            return walked in base.bases
        case _:
            return False


def weight(form: Form, axis: IterDomain) -> int:
    """Elements that a step along the axis is, where no digit of it has a part in that; else 0."""
    return next((w for w, d in form.terms if d.base is axis and d.is_whole), 0)
