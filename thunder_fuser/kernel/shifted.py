"""Accesses to rows that begin anywhere in an aligned vector of their plane.

    rows of 4097, lanes 8       row 1 begins at element 4097, in lane 1 of the vector at 4096

Loads take whole vectors, foreign elements with them, and of one in which the plane ends its
elements; stores leave foreign ones out. Of rows that have their edges apart no vector has such.
What lies along the row and not in the plane, such as weights, is loaded as vectors that are not
aligned. Of gathered rows and of sums by an index only the results are such a plane: what is read
are rows of others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod

from thunder_fuser.analysis.digits import Form
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.analysis.layout import Layout, end_inside_word
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.statements import LaneStatement, Operand, VectorAccess
from thunder_fuser.kernel.vectors import Accesses
from thunder_fuser.schedule.row_axes import RowAxes, is_of_all_rows
from thunder_fuser.schedule.row_schedule import RowSchedule
from thunder_fuser.schedule.vector_axes import ShiftedAxes


class ShiftedAccesses(Accesses):
    """Accesses under shifted axes. Loads end with the plane, stores with the row. Where a thread
    `loads_ahead` the compiler is told that nobody writes weights."""

    def __init__(
        self,
        layouts: Mapping[TensorView, Layout],
        axes: RowAxes,
        names: Mapping[TensorView, str],
        suffix: Callable[[TensorView, Form], str],
        loads_ahead: bool,
    ) -> None:
        super().__init__(layouts, axes.lane, names, False, suffix)
        self.axes, self.loads_ahead = axes, loads_ahead
        self.start = axes.begin(axes.flat)
        self.row = axes.shifted

    def request(self, tv: TensorView, offset: Form, guards: tuple[Window, ...]) -> None:
        """An element of the plane beside the row is one of a row beside it, unless the tensor is a
        piece of the plane; one of a tensor along the row is left out with the vectors that leave
        the row."""
        is_weight = self.row.is_along(offset) and all(map(self.axes.is_inside, guards))
        is_plane = prod(tv.shape) >= self.axes.rows * self.axes.columns
        is_free = (is_plane and offset == self.axes.flat) or is_weight
        super().request(tv, offset, () if is_free else guards)

    def group_loads(self) -> tuple[VectorAccess, ...]:
        window = Window(self.start, self.axes.rows * self.axes.columns)
        plane = None if self.axes.is_covered else window
        loads = [self._within(load, plane) for load in super().group_loads()]
        is_apart = plane is not None and not self.axes.ends
        return tuple(replace(a, is_apart=is_apart and a.window is plane) for a in loads)

    def group_stores(
        self, targets: Sequence[tuple[TensorView, Form, Operand]]
    ) -> tuple[list[LaneStatement], tuple[VectorAccess, ...]]:
        writes, vectors = super().group_stores(targets)
        row = None if self.axes.has_edges else self.row.inside
        return writes, tuple(self._within(store, row) for store in vectors)

    def beside(self, offset: Form) -> tuple[Window, ...]:
        """What lies neither in the plane nor along the row."""
        lies_along = offset == self.axes.flat or self.row.is_along(offset)
        return () if lies_along or self.axes.lane not in offset.bases else self.axes.inside

    def _within(self, access: VectorAccess, plane: Window | None) -> VectorAccess:
        """The access with the window of those of its elements that it may move."""
        if access.offset == self.start:
            return replace(access, window=plane)
        if not self.row.is_along(access.offset):
            return access
        is_constant = self.loads_ahead and is_of_all_rows(access.offset, self.axes)
        return replace(access, window=self.row.inside, is_constant=is_constant)


class RowAccesses(Accesses):
    """Accesses under shifted axes, which lie along the row wherever they differ in it: loads take
    the words of a row, stores leave out what is beside it."""

    def __init__(
        self,
        layouts: Mapping[TensorView, Layout],
        axes: ShiftedAxes,
        names: Mapping[TensorView, str],
        suffix: Callable[[TensorView, Form], str] = lambda tv, offset: "",
    ) -> None:
        super().__init__(layouts, axes.lane, names, None, suffix)
        self.axes = axes
        self._ends = {
            name: end_inside_word(layouts[tv], tv.dtype.itemsize)
            for tv, name in names.items()
            if tv in layouts
        }

    def request(self, tv: TensorView, offset: Form, guards: tuple[Window, ...]) -> None:
        """No element beside the row is used."""
        super().request(tv, offset, () if self.axes.is_along(offset) else guards)

    def group_loads(self) -> tuple[VectorAccess, ...]:
        loads = map(self._within, super().group_loads())
        return tuple(replace(a, end=self._ends[a.pointer]) if a.is_of_row else a for a in loads)

    def group_stores(
        self, targets: Sequence[tuple[TensorView, Form, Operand]]
    ) -> tuple[list[LaneStatement], tuple[VectorAccess, ...]]:
        writes, vectors = super().group_stores(targets)
        return writes, tuple(map(self._within, vectors))

    def _within(self, access: VectorAccess) -> VectorAccess:
        if not self.axes.is_along(access.offset):
            return access
        return replace(access, window=self.axes.inside, is_of_row=True)


def row_accesses(
    planned: RowSchedule,
    names: Mapping[TensorView, str],
    suffix: Callable[[TensorView, Form], str],
) -> Accesses:
    """What moves the vectors of rows that are planned so. Elements beside these are loaded where
    rows stay in registers."""
    layouts, axes, where = planned.segment.layouts, planned.axes, planned.residency
    if axes.is_shifted:
        writes_anew = not any(s.is_in_place for s in planned.segment.stores)
        return ShiftedAccesses(layouts, axes, names, suffix, writes_anew and where.has_room_ahead)
    is_moved = planned.is_staged or where.shared or planned.columns.reductions
    plain = not (is_moved or planned.chunk or planned.segment.met)
    return Accesses(
        layouts, axes.lane, names, False, suffix, leaves_out=True, carries=True, reaches=plain
    )
