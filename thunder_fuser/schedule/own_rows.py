"""Rows of a flat plane for one thread, so that it loads once what repeats in all of them.

    axis f{67125248}, mean[f % 4097]      =>      o{512}, u{4}, w{32776}, u in one thread

Rows that no vector fits are one axis (`flatten.py`), and what repeats along their columns is read
lane by lane. A warp has neighbouring vectors, so its threads are a vector apart in each such load:
with eight lanes of 4 bytes all of them meet in four of the 32 banks. The gradient of a batch norm
in 16 bits has four such values of a column: their loads are three times as many turns of the banks
as its plane takes to come from memory.

Eight rows of 4097 are a whole number of vectors: a thread that has the same vector of several such
packs of rows reads the same columns in all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from thunder_fuser.analysis.digits import Form, atom, combine
from thunder_fuser.analysis.layout import bytes_of
from thunder_fuser.ir.domain import IterDomain, split
from thunder_fuser.schedule.classes import IterationClass
from thunder_fuser.schedule.nest import replace_axis
from thunder_fuser.schedule.parameters import MAX_LOADED, MapParameters
from thunder_fuser.schedule.vectorize import cut_class, lanes_of
from thunder_fuser.target import WARP

MANY_MET = 8  # lanes times bytes that repeat, for a byte of the plane, as of two values of a column
# in 16 bits: loads then take 64 turns of the banks while memory moves 1 KB, which is as long
INDEXED = 1  # values as which a lane's division counts, of which each takes eight instructions, as
# long as memory moves a byte: 63 columns of a batch norm in 16 bits took 330 for a vector


@dataclass(frozen=True)
class _Traffic:
    """Bytes of an element: `moved` of the plane, and those of `values` that repeat in rows of so
    many `columns`."""

    moved: int
    loaded: int
    repeated: int
    values: int
    columns: int


def own_rows(group: IterationClass, parameters: MapParameters) -> tuple[IterationClass, ...]:
    """`group` with several rows in one thread where it spends its time on what repeats in them, and
    the class of rows that are left over."""
    traffic = _traffic(group)
    lanes = lanes_of(group, parameters)
    if traffic is None or lanes * traffic.repeated < MANY_MET * traffic.moved:
        return (group,)
    are_met = traffic.columns < WARP * lanes  # by each warp, in all banks
    if are_met and traffic.values + INDEXED < traffic.moved:
        return (group,)
    (flat,) = group.axes
    pack = traffic.columns * lanes // gcd(traffic.columns, lanes)
    count = _count(traffic, flat.size // pack, flat.size, parameters)
    if count < 2:
        return (group,)
    left = flat.size % (count * pack)
    if not left:
        return (_owned(group, pack, count),)
    whole, rest = cut_class(group, flat, flat.size - left)
    return _owned(whole, pack, count), rest


def _traffic(group: IterationClass) -> _Traffic | None:
    """None for a class of anything but one axis, along which something repeats at one distance."""
    is_plain = all(nest.is_whole and not nest.unrolled for nest in group.nests)
    if len(group.axes) != 1 or not is_plain or group.windows:
        return None
    (flat,) = group.axes
    repeated = {(tv, form): n for tv, form in group.loads if (n := _columns(form, flat))}
    plane = [tv for tv, form in group.loads if _is_whole(form, flat)]
    if len(set(repeated.values())) != 1:
        return None
    loaded = bytes_of(plane)
    moved = loaded + bytes_of([nest.store.target for nest in group.nests])
    values = bytes_of([tv for tv, _ in repeated])
    return _Traffic(moved, loaded, values, len(repeated), min(repeated.values()))


def _columns(form: Form, flat: IterDomain) -> int | None:
    """After how many elements of the axis it repeats; None where it does not, or is the same for
    neighbours."""
    own = [digit for _, digit in form.terms if digit.base is flat]
    rest = Form(0, tuple(term for term in form.terms if term[1].base is not flat))
    if len(own) != 1 or flat in rest.bases or own[0].stride != 1 or own[0].is_whole:
        return None
    return own[0].extent


def _is_whole(form: Form, flat: IterDomain) -> bool:
    return any(digit.base is flat and digit.is_whole for _, digit in form.terms)


def _count(traffic: _Traffic, packs: int, elements: int, parameters: MapParameters) -> int:
    """How many packs of rows a thread has the same vector of: as many as leave none over, unless
    that is less than half of what it can."""
    lanes = parameters.lanes_of_owners
    fitting = [
        n
        for n in range(2, 1 + min(parameters.reused, packs))
        if elements // n >= parameters.busy
        and lanes * (n * traffic.loaded + traffic.repeated) <= MAX_LOADED
    ]
    most = max(fitting, default=1)
    return max((n for n in fitting if packs % n == 0 and 2 * n >= most), default=most)


def _owned(group: IterationClass, pack: int, count: int) -> IterationClass:
    """`group` with so many neighbouring packs in one thread."""
    (flat,) = group.axes
    packs, inner = split(flat, pack)
    outer, own = split(packs, count)
    value = combine(combine(atom(outer), atom(own), count), atom(inner), pack)
    nests = (replace_axis(n, flat, (outer, own, inner), value) for n in group.nests)
    return IterationClass(group.segment, tuple(replace(n, unrolled=(own,)) for n in nests))
