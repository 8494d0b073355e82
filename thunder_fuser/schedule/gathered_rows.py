"""Gathered rows whose length aligns nothing, in the vectors that are aligned where they are stored.

    T2[i0{116306}, i1{577}] = T0[T1[i0], i1]
        =>   i0, i2{73}, lane{8}, where 577 * i0 + i1 = 8 * ((577 * i0) / 8 + i2) + lane

As one axis (`flatten.py`, `flat_stores.py`) such rows would be read lane by lane, each at an index
of its own. Here a thread has one index and puts a vector of its row together of two; those of the
first and the last vector of a row leave out what another row has of it.
"""

from __future__ import annotations

from math import gcd

from thunder_fuser.analysis.digits import Form, add, atom, loads_in, scale, substitute
from thunder_fuser.analysis.layout import MAX_ALIGNMENT, WIDE_ENOUGH, offset_of
from thunder_fuser.analysis.short_rows import shifted_vectors
from thunder_fuser.ir.domain import axis
from thunder_fuser.schedule.classes import IterationClass
from thunder_fuser.schedule.nest import Nest, replace_axis
from thunder_fuser.schedule.parameters import MapParameters
from thunder_fuser.schedule.vector_axes import ShiftedAxes, lane_of
from thunder_fuser.schedule.vectorize import VectorClass, narrowest_access
from thunder_fuser.target import SECTOR


def gathered_rows(group: IterationClass, parameters: MapParameters) -> VectorClass | None:
    """`group` in such vectors; None for what gathers nothing, has wide accesses as it is, or reads
    what does not lie along its rows."""
    if len(group.nests) != 1 or group.windows or not any(loads_in(group.forms)):
        return None
    (nest,) = group.nests
    if nest.unrolled or not nest.is_whole or not nest.axes:
        return None
    axes = _axes(group, nest)
    if axes is None or narrowest_access(group, parameters) >= WIDE_ENOUGH:
        return None
    inner = tuple(a for a in (axes.vector, axes.lane) if a is not None)
    nests = (replace_axis(nest, nest.axes[-1], inner, axes.column),)
    made = IterationClass(group.segment, nests)
    (needs,) = made.needs
    is_apart = any(axes.vector in form.bases for place in needs.places for form in place.index)
    if is_apart or not axes.fits(made.forms):
        return None
    return VectorClass(made, axes.lane, streams=None, row=axes)


def _axes(group: IterationClass, nest: Nest) -> ShiftedAxes | None:
    """None for rows that do not lie one behind the other where they are stored, or that have fewer
    sectors than parts in which their first and last vectors are stored."""
    column, layout = nest.axes[-1], group.segment.layouts[nest.store.target]
    stored = offset_of(layout, nest.index)
    start, columns = substitute(stored, {column: Form()}), column.size
    is_dense = add(stored, scale(start, -1)) == atom(column) and _is_multiple(start, columns)
    read = [tv for tv, form in group.accesses if column in form.bases]
    lanes = MAX_ALIGNMENT // min(tv.dtype.itemsize for tv in (nest.store.target, *read))
    is_short = columns * nest.store.target.dtype.itemsize < SECTOR * _parts(columns, lanes)
    if not is_dense or layout.alignment < MAX_ALIGNMENT or is_short:
        return None
    return ShiftedAxes(axis(shifted_vectors(columns, lanes)), lane_of(lanes), start, columns)


def _parts(columns: int, lanes: int) -> int:
    """Of the vector in which a row ends, stored by it and by the next one."""
    return lanes // gcd(columns, lanes)


def _is_multiple(start: Form, columns: int) -> bool:
    return all(weight % columns == 0 for weight in (start.constant, *(w for w, _ in start.terms)))
