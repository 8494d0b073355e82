"""Accesses of columns whose vectors lag behind them, so that they are aligned.

read T0[1165056*image + 1517*row + first + lane]    v0 = load, 4 x bf16, 8 bytes at a time
read T1[1517*image + first + lane]                  v1 = load, a lane at a time, of those in the row
store T2[1165056*image + 1517*row + first + lane]   w0, 8 bytes at a time, of it what is in the row

Loads of a row take foreign elements with them, of the rows before and behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from thunder_fuser.analysis.digits import Form, atom
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.statements import LaneStatement, Operand, VectorAccess
from thunder_fuser.kernel.vectors import Accesses, Address, Place
from thunder_fuser.schedule.kept_columns import is_of_plane
from thunder_fuser.schedule.odd_columns import OddAxes


class OddAccesses(Accesses):
    """Accesses under odd axes."""

    def __init__(
        self, layouts: Mapping[TensorView, Layout], axes: OddAxes, names: Mapping[TensorView, str]
    ) -> None:
        def suffix(tv: TensorView, offset: Form) -> str:
            return "[k]" if is_of_plane(offset, axes) else ""

        super().__init__(layouts, axes.lane, names, None, suffix, lambda form: True)
        self.axes = axes

    def group_loads(self) -> tuple[VectorAccess, ...]:
        """Those of columns besides the plane lane by lane."""
        free = [key for key, guards in self.requests.items() if not guards]
        columns = {key: f"c{n}" for n, key in enumerate(filter(self._is_of_columns, free))}
        requests = self.requests
        self.requests = {key: g for key, g in requests.items() if key not in columns}
        loads = tuple(map(self._loaded, super().group_loads()))
        self.requests = requests
        self.places |= {key: Place(name, 1, 0) for key, name in columns.items()}
        return (*loads, *(self._apart(*key, name) for key, name in columns.items()))

    def _is_of_columns(self, key: Address) -> bool:
        bases = key[1].bases
        return self.axes.row not in bases and not bases.isdisjoint({self.axes.first, self.lane})

    def _loaded(self, access: VectorAccess) -> VectorAccess:
        return _whole(access) if is_of_plane(access.offset, self.axes) else access

    def group_stores(
        self, targets: Sequence[tuple[TensorView, Form, Operand]]
    ) -> tuple[list[LaneStatement], tuple[VectorAccess, ...]]:
        writes, vectors = super().group_stores(targets)
        return writes, tuple(map(self._stored, vectors))

    def _stored(self, access: VectorAccess) -> VectorAccess:
        if not is_of_plane(access.offset, self.axes):
            return access
        row = Window(atom(self.axes.first), self.axes.width)
        return replace(_whole(access), window=row)


def _whole(access: VectorAccess) -> VectorAccess:
    """One that is aligned in every row, whatever its offset tells."""
    return replace(access, access_bytes=access.length * access.dtype.itemsize)
