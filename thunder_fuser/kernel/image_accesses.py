"""The accesses of kept columns that are places of images in shared memory.

read T0[25088*(vector / 49) + 49*row + vector % 49]      v0 = load T0_image[49*row + place]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from thunder_fuser.analysis.digits import Form, add, atom, scale
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.ir.domain import axis
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.image_ir import ImagePlane, Images, PlaceValues
from thunder_fuser.kernel.statements import LaneStatement, Operand, VectorAccess
from thunder_fuser.kernel.vectors import Accesses
from thunder_fuser.schedule.columns import ColumnAxes
from thunder_fuser.schedule.kept_columns import is_of_plane


class ImageAccesses(Accesses):
    """Accesses of which those of the plane are to slots, and those of rows alone to copies; the
    others are as without."""

    def __init__(
        self,
        layouts: Mapping[TensorView, Layout],
        axes: ColumnAxes,
        vectors: int,
        names: Mapping[TensorView, str],
    ) -> None:
        super().__init__(layouts, axes.lane, names, None)
        self.axes, self.place = axes, axis(vectors)
        self.planes: dict[str, ImagePlane] = {}
        self.rows: dict[str, VectorAccess] = {}
        self.written: dict[str, str] = {}  # the plane whose place a stored vector takes

    def group_loads(self) -> tuple[VectorAccess, ...]:
        return tuple(self._loaded(a) for a in super().group_loads())

    def _loaded(self, access: VectorAccess) -> VectorAccess:
        if access.offset.bases == {self.axes.row} and access.length == 1:
            name = f"{access.pointer}_rows{len(self.rows)}"
            self.rows[name] = access
            return replace(access, pointer=name, offset=atom(self.axes.row))
        if not is_of_plane(access.offset, self.axes):
            return access
        name = f"{access.pointer}_image"
        self.planes[name] = ImagePlane(name, access.pointer, access.dtype)
        return self._in_slot(access, name)

    def group_stores(
        self, targets: Sequence[tuple[TensorView, Form, Operand]]
    ) -> tuple[list[LaneStatement], tuple[VectorAccess, ...]]:
        writes, vectors = super().group_stores(targets)
        stored = dict.fromkeys(self._stored(a) for a in vectors)
        return writes, tuple(stored)

    def _stored(self, access: VectorAccess) -> VectorAccess:
        """Vectors of one name have the same values, and one place."""
        if not is_of_plane(access.offset, self.axes):
            return access
        if access.name not in self.written:
            taken = {*self.written.values()}
            self.written[access.name] = next(
                plane.name
                for plane in self.planes.values()
                if plane.dtype is access.dtype and plane.name not in taken
            )
        name = self.written[access.name]
        plane = self.planes[name]
        self.planes[name] = replace(plane, stored=(*plane.stored, access.pointer))
        return self._in_slot(access, name)

    def _in_slot(self, access: VectorAccess, name: str) -> VectorAccess:
        steps = self.place.size * access.length
        own = scale(atom(self.place), access.length)
        offset = add(scale(atom(self.axes.row), steps), own)
        return replace(access, pointer=name, offset=offset)

    def images(self, slots: int, idle: int, at_places: PlaceValues) -> Images:
        """Of the planes that were asked for."""
        count, planes = self.axes.vector.size // self.place.size, tuple(self.planes.values())
        elements = self.axes.row.size * self.place.size * self.lanes
        rows = tuple(self.rows.items())
        return Images(planes, slots, self.place, count, elements, idle, at_places, rows)
