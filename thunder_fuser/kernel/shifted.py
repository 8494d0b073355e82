"""Accesses to rows that begin anywhere in an aligned vector of their plane.

    rows of 4097, lanes 8       row 1 begins at element 4097, in lane 1 of the vector at 4096

Loads take whole vectors, foreign elements with them; stores leave those out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from thunder_fuser.analysis.digits import Form, substitute
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.ir import LaneStatement, Operand, VectorAccess
from thunder_fuser.kernel.vectors import Accesses
from thunder_fuser.schedule.row_axes import RowAxes


class ShiftedAccesses(Accesses):
    """Accesses under shifted axes. Loads end with the plane, stores with the row."""

    def __init__(
        self,
        layouts: Mapping[TensorView, Layout],
        axes: RowAxes,
        names: Mapping[TensorView, str],
        suffix: Callable[[TensorView, Form], str],
    ) -> None:
        super().__init__(layouts, axes.lane, names, False, suffix)
        self.axes = axes
        first = {} if axes.lane is None else {axes.lane: Form()}
        self.start, self.column = (substitute(f, first) for f in (axes.flat, axes.column))

    def request(self, tv: TensorView, offset: Form, guards: tuple[Window, ...]) -> None:
        """An element of the plane beside the row is an element of a row beside it."""
        super().request(tv, offset, () if offset == self.axes.flat else guards)

    def group_loads(self) -> tuple[VectorAccess, ...]:
        plane = self.axes.columns * self.axes.group.size * self.axes.turn.size
        window = Window(self.start, plane)
        return tuple(self._inside(load, window) for load in super().group_loads())

    def group_stores(
        self, targets: Sequence[tuple[TensorView, Form, Operand]]
    ) -> tuple[list[LaneStatement], tuple[VectorAccess, ...]]:
        writes, vectors = super().group_stores(targets)
        window = Window(self.column, self.axes.columns)
        return writes, tuple(self._inside(store, window) for store in vectors)

    def _inside(self, access: VectorAccess, window: Window) -> VectorAccess:
        return replace(access, window=window) if access.offset == self.start else access
