"""Rows whose length aligns nothing, gathered or in another order, in the vectors that are aligned
where they are stored.

    T2[i0{116306}, i1{577}] = T0[T1[i0], i1]
        =>   i0, i2{73}, lane{8}, where 577 * i0 + i1 = 8 * ((577 * i0) / 8 + i2) + lane

    T2[i0{25}, i1{577}, i2{8}, i3{577}] = T0[i0, i2, i1, i3]

As one axis (`flatten.py`, `flat_stores.py`) such rows would be read lane by lane, each at an index
of its own. Here a thread has one row and puts a vector of it together of two; those of the first
and the last vector of a row leave out what another row has of it.
"""

from __future__ import annotations

from math import gcd, prod

from thunder_fuser.analysis.digits import Form, add, atom, loads_in, scale, substitute
from thunder_fuser.analysis.layout import MAX_ALIGNMENT, WIDE_ENOUGH, offset_of
from thunder_fuser.analysis.short_rows import shifted_vectors
from thunder_fuser.ir.domain import axis
from thunder_fuser.schedule.classes import IterationClass
from thunder_fuser.schedule.flat_stores import flat_stores
from thunder_fuser.schedule.flatten import flatten
from thunder_fuser.schedule.nest import replace_axis
from thunder_fuser.schedule.parameters import MapParameters
from thunder_fuser.schedule.slabs import turned
from thunder_fuser.schedule.vector_axes import ShiftedAxes, lane_of
from thunder_fuser.schedule.vectorize import VectorClass, narrowest_access
from thunder_fuser.target import SECTOR


def gathered_rows(group: IterationClass, parameters: MapParameters) -> VectorClass | None:
    """`group` in such vectors; None for what lies in its order, or has wide accesses, or reads
    what does not lie along its rows."""
    gathers, first = any(loads_in(group.forms)), group.nests[0]
    if group.windows or not (gathers or _changes_places(group, parameters)):
        return None
    if not first.axes or any(nest.unrolled or not nest.is_whole for nest in group.nests):
        return None
    axes = _axes(group, parameters.lanes)
    if axes is None or narrowest_access(group, parameters) >= WIDE_ENOUGH:
        return None
    inner = tuple(a for a in (axes.vector, axes.lane) if a is not None)
    nests = tuple(replace_axis(n, first.axes[-1], inner, axes.column) for n in group.nests)
    made = IterationClass(group.segment, nests)
    places = (place for needs in made.needs for place in needs.places)
    is_apart = any(axes.vector in form.bases for place in places for form in place.index)
    if is_apart or not axes.fits(made.forms):
        return None
    return VectorClass(made, axes.lane, streams=None, row=axes)


def _changes_places(group: IterationClass, parameters: MapParameters) -> bool:
    """True for a large class of rows of odd length that are not one axis, nor turned, and are not
    stored as one."""
    is_large = prod(a.size for a in group.axes) >= parameters.busy
    is_odd = bool(group.axes) and gcd(group.axes[-1].size, parameters.lanes) < parameters.lanes
    if not (is_large and is_odd) or any(store.is_in_place for store in group.segment.stores):
        return False
    if turned(group, parameters.lanes, parameters.busy) is not None:
        return False
    flat = flatten(group, parameters)
    is_narrow = narrowest_access(flat, parameters) < WIDE_ENOUGH
    return is_narrow and flat_stores((flat,), parameters) == (flat,)


def _axes(group: IterationClass, most: int) -> ShiftedAxes | None:
    """None for rows that do not lie one behind the other where they are stored, or that have fewer
    sectors than parts in which their first and last vectors are stored."""
    column, layouts = group.axes[-1], group.segment.layouts
    targets = [nest.store.target for nest in group.nests]
    stored = [offset_of(layouts[n.store.target], n.index) for n in group.nests]
    start, columns = substitute(stored[0], {column: Form()}), column.size
    lie_alike = all(form == stored[0] for form in stored)
    is_dense = add(stored[0], scale(start, -1)) == atom(column) and _is_multiple(start, columns)
    sizes = [tv.dtype.itemsize for tv, form in group.accesses if column in form.bases]
    lanes = min(MAX_ALIGNMENT // min(sizes), max(most, MAX_ALIGNMENT // max(sizes)))
    row = columns * max(tv.dtype.itemsize for tv in targets)
    is_aligned = all(layouts[tv].alignment == MAX_ALIGNMENT for tv in targets)
    if not (lie_alike and is_dense and is_aligned) or row < SECTOR * _parts(columns, lanes):
        return None
    return ShiftedAxes(axis(shifted_vectors(columns, lanes)), lane_of(lanes), start, columns)


def _parts(columns: int, lanes: int) -> int:
    """Of the vector in which a row ends, stored by it and by the next one."""
    return lanes // gcd(columns, lanes)


def _is_multiple(start: Form, columns: int) -> bool:
    return all(weight % columns == 0 for weight in (start.constant, *(w for w, _ in start.terms)))
