"""The accesses of kept columns that are places of images in shared memory.

read T0[25088*(vector / 49) + 49*row + vector % 49]      v0 = load T0_image[49*row + place]
read T5[512*vector + row]                                v1 = load T5_image[520*place + row]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from thunder_fuser.analysis.digits import Form, add, atom, scale
from thunder_fuser.analysis.image_slots import pitch
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.ir.domain import axis
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.image_ir import ImagePlane, Images, PlaceValues, pieces_of
from thunder_fuser.kernel.statements import LaneStatement, Operand, VectorAccess
from thunder_fuser.kernel.vectors import Accesses
from thunder_fuser.schedule.column_axes import ColumnAxes
from thunder_fuser.schedule.kept_columns import is_of_plane
from thunder_fuser.schedule.strips import lies_along


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
        self.turns_out = False

    def group_loads(self) -> tuple[VectorAccess, ...]:
        return tuple(self._loaded(a) for a in super().group_loads())

    def _loaded(self, access: VectorAccess) -> VectorAccess:
        if access.offset.bases == {self.axes.row} and access.length == 1:
            name = f"{access.pointer}_rows{len(self.rows)}"
            self.rows[name] = access
            return replace(access, pointer=name, offset=atom(self.axes.row))
        if not is_of_plane(access.offset, self.axes):
            return access
        name, apart = f"{access.pointer}_image", None
        if lies_along(access.offset, self.axes):  # a plane may be read in both ways
            name, apart = f"{name}_turned", pitch(self.axes.row.size, access.dtype.itemsize)
        self.planes[name] = ImagePlane(name, access.pointer, access.dtype, apart)
        return self._in_slot(access, name)

    def group_stores(
        self, targets: Sequence[tuple[TensorView, Form, Operand]]
    ) -> tuple[list[LaneStatement], tuple[VectorAccess, ...]]:
        writes, vectors = super().group_stores(targets)
        stored = dict.fromkeys(self._stored(a) for a in vectors)
        return writes, tuple(stored)

    def _stored(self, access: VectorAccess) -> VectorAccess:
        """Vectors of one name have the same values, and one place. What is turned is stored by
        threads at rows, where it lies."""
        if not is_of_plane(access.offset, self.axes):
            return access
        if lies_along(access.offset, self.axes):
            self.turns_out = True
            return access
        if access.name not in self.written:
            taken = {*self.written.values()}
            self.written[access.name] = next(
                plane.name
                for plane in self.planes.values()
                if plane.dtype is access.dtype and plane.pitch is None and plane.name not in taken
            )
        name = self.written[access.name]
        plane = self.planes[name]
        self.planes[name] = replace(plane, stored=(*plane.stored, access.pointer))
        return self._in_slot(access, name)

    def _in_slot(self, access: VectorAccess, name: str) -> VectorAccess:
        apart, steps = self.planes[name].pitch, self.place.size * access.length
        if apart is not None:
            offset = add(scale(atom(self.place), apart), atom(self.axes.row))
        else:
            own = scale(atom(self.place), access.length)
            offset = add(scale(atom(self.axes.row), steps), own)
        return replace(access, pointer=name, offset=offset)

    def images(self, slots: int, idle: int, at_places: PlaceValues, walkers: int | None) -> Images:
        """Of the planes that were asked for. `walkers` are threads of a block that has several."""
        comes_late = slots == 1 and any(p.stored for p in self.planes.values())
        pieces = pieces_of(self.axes.row.size, walkers) if comes_late and walkers else 1
        count, planes = self.axes.vector.size // self.place.size, tuple(self.planes.values())
        elements = self.axes.row.size * self.place.size * self.lanes
        rows = tuple(self.rows.items())
        return Images(
            planes,
            slots,
            self.place,
            count,
            elements,
            self.lanes,
            idle,
            at_places,
            rows,
            self.turns_out,
            pieces,
        )
