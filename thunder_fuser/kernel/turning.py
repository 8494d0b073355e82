"""The accesses of a tiled body, or of kept columns: those that are turned go through squares, or
strips, in shared memory.

read T0[64*(8*i1 + lane) + i0]      t0 = turn T0[64*i1 + 8*i0], 8 elements, into a square; then
                                    t0[vector + lane, row]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from thunder_fuser.analysis.digits import ZERO, Form
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.statements import (
    Expression,
    LaneStatement,
    Operand,
    ReadSquare,
    VectorAccess,
    WriteSquare,
)
from thunder_fuser.kernel.vectors import Accesses, Address, access_bytes
from thunder_fuser.schedule.lagging import LaggingTile
from thunder_fuser.schedule.sheared import ShearedTile
from thunder_fuser.schedule.strips import Strip
from thunder_fuser.schedule.tiles import LateTile, Tile


class TurnedAccesses(Accesses):
    """Accesses of which some are turned; the others are as without."""

    def __init__(
        self,
        layouts: Mapping[TensorView, Layout],
        tile: Tile | Strip,
        lane: IterDomain | None,
        names: Mapping[TensorView, str],
        streams: bool | None,
        suffix: Callable[[TensorView, Form], str],
        is_kept: Callable[[Form], bool] = lambda offset: False,
    ) -> None:
        super().__init__(layouts, lane, names, streams, suffix, is_kept)
        self.tile = tile
        self.loads: dict[Address, VectorAccess] = {}
        self.stores: tuple[VectorAccess, ...] = ()

    @property
    def turned_loads(self) -> tuple[VectorAccess, ...]:
        return tuple(self.loads.values())

    def group_loads(self) -> tuple[VectorAccess, ...]:
        for (tv, offset), guards in self.requests.items():
            if not guards and (turned := self._turned(tv, offset, f"t{len(self.loads)}")):
                self.loads[tv, offset] = turned
        self.requests = {k: guards for k, guards in self.requests.items() if k not in self.loads}
        return super().group_loads()

    def read(self, tv: TensorView, offset: Form, guards: tuple[Window, ...]) -> Expression:
        if (tv, offset) in self.loads:
            return ReadSquare(self.loads[tv, offset].name, self.tile, tv.dtype, self._late(offset))
        return super().read(tv, offset, guards)

    def group_stores(
        self, targets: Sequence[tuple[TensorView, Form, Operand]]
    ) -> tuple[list[LaneStatement], tuple[VectorAccess, ...]]:
        direct: list[tuple[TensorView, Form, Operand]] = []
        stores: list[VectorAccess] = []
        before = len(self.loads) + len(self.stores)
        writes: list[LaneStatement] = []
        for tv, offset, value in targets:
            turned = self._turned(tv, offset, f"t{before + len(stores)}")
            if turned is None:
                direct.append((tv, offset, value))
            else:
                stores.append(turned)
                late = self._late(offset)
                writes.append(WriteSquare(turned.name, self.tile, value, tv.dtype, late))
        self.stores += tuple(stores)
        others, vectors = super().group_stores(direct)
        return [*writes, *others], vectors

    def _late(self, offset: Form) -> Form:
        """Elements by which a row begins behind a vector."""
        return self.tile.late(offset) if isinstance(self.tile, LateTile) else ZERO

    def _turned(self, tv: TensorView, offset: Form, name: str) -> VectorAccess | None:
        start = self.tile.turned(offset)
        if start is None:
            return None
        run = self.tile.run
        if isinstance(self.tile, ShearedTile):
            window, width = self.tile.window(offset), run * tv.dtype.itemsize
            return VectorAccess(name, self.names[tv], start, run, width, tv.dtype, window=window)
        width = access_bytes(self.layouts[tv], start, run, tv.dtype.itemsize)
        access = VectorAccess(name, self.names[tv], start, run, width, tv.dtype)
        if not isinstance(self.tile, LaggingTile):
            return access
        return replace(access, window=Window(start, self.layouts[tv].span))
