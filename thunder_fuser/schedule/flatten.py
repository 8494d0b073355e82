"""Rows whose length aligns nothing, walked as one axis.

    axes i0{16384}, i1{4097}      =>      axis f{67125248}, where i0 = f / 4097 and i1 = f % 4097

A tensor that lies dense, T[i0, i1] at 4097*i0 + i1, is at f: what threads load and store of it is
then a whole number of aligned vectors. What is broadcast, a bias at f % 4097 or a value per row at
f / 4097, is read lane by lane, and is small enough for the cache.

Most vectors lie in one row: those of long rows are told apart, as there f / 4097 is one number for
all lanes, and f % 4097 counts up.

Rows stay rows where accesses are wide enough as they are, where a tensor does not lie dense (every
load and store that depends on both axes must walk them as one), and where pads and cats or gathered
rows depend on them.
"""

from __future__ import annotations

from dataclasses import replace

from thunder_fuser.analysis.carries import Carry, carry_of, straight
from thunder_fuser.analysis.digits import loads_in
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.analysis.layout import WIDE_ENOUGH
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.schedule.classes import IterationClass
from thunder_fuser.schedule.order import merge_pair, walks_as_one
from thunder_fuser.schedule.parameters import MapParameters
from thunder_fuser.schedule.vectorize import VectorClass, narrowest_access
from thunder_fuser.target import WARP

LONG = 4 * WARP  # vectors of a row, so that most warps have none that lies in two


def flatten(group: IterationClass, parameters: MapParameters) -> IterationClass:
    """`group` with as few of its innermost axes merged as accesses of twice the width take, if any
    do."""
    width = narrowest_access(group, parameters)
    if width >= WIDE_ENOUGH or any(loads_in(group.forms)):
        return group
    flat = group
    while len(flat.axes) > 1 and _is_dense(flat, *flat.axes[-2:]):
        flat = merge_pair(flat, *flat.axes[-2:])
        if narrowest_access(flat, parameters) >= 2 * width:
            return flat
    return group


def _is_dense(group: IterationClass, outer: IterDomain, inner: IterDomain) -> bool:
    """True where everything walks the two axes as one, or depends on one of them only."""
    both = frozenset((outer, inner))
    return all(both.isdisjoint(form.bases) for form in group.windows) and all(
        walks_as_one(form, outer, inner) for form in group.forms if both <= form.bases
    )


def without_carries(found: VectorClass) -> tuple[Window, VectorClass] | None:
    """The window of those vectors that lie in one row, and the class as it is for them, which has
    no carries into long rows left; None where there are no rows, or short ones, or where such
    carries would stay.

    They stay where a reshape makes them behind the store: T1[64, 24] of T0[6, 256], whose rows lie
    apart, reads row (24*i0 + i1) / 256, however its own index is written. Nor may a window test an
    index along short rows then that needed no test before.
    """
    group, lane = found.group, found.lane
    row = _long_row(group, lane, bool(group.windows))
    if lane is None or row is None:
        return None
    nests = tuple(replace(n, index=tuple(straight(f, lane) for f in n.index)) for n in group.nests)
    made = IterationClass(group.segment, nests)
    if _long_row(made, lane, bool(made.windows)) is not None:
        return None
    if made.windows and row != _long_row(group, lane, is_guarded=True):
        return None
    return Window(row.place, row.modulus - lane.size + 1), replace(found, group=made)


def _long_row(group: IterationClass, lane: IterDomain | None, is_guarded: bool) -> Carry | None:
    """Where lanes come to the end of a row, if rows are long. Offsets may walk short rows inside of
    them as one; what is behind windows is guarded by the index along each."""
    if lane is None:
        return None
    guarded = [form for nest in group.nests if is_guarded for form in nest.index]
    row = carry_of((*group.forms, *guarded), lane)
    return row if row is not None and row.modulus >= LONG * lane.size else None
