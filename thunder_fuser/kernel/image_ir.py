"""Images of a kept column kernel that pass through shared memory.

image T0 -> T9, 25088 x bf16, 2 slots         T9 takes the place of T0, element by element
"""

from __future__ import annotations

from dataclasses import dataclass

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.kernel.row_ir import Scope
from thunder_fuser.kernel.statements import VectorAccess


@dataclass(frozen=True)
class ImagePlane:
    """A plane that comes from `pointer` to the array `name`, an image at a time; what its elements
    become goes to each of `stored`."""

    name: str
    pointer: str
    dtype: DataType
    stored: tuple[str, ...] = ()


@dataclass(frozen=True)
class DealtRows:
    """Rows of an image as threads have them: so many `at_once`, each by some `sharers`, which have
    every so many-th place; and those of a thread."""

    at_once: int
    sharers: int
    per_thread: int

    @staticmethod
    def of(rows: int, threads: int, vectors: int) -> DealtRows:
        at_once = min(rows, threads)
        return DealtRows(at_once, min(threads // at_once, vectors), ceil_div(rows, at_once))


@dataclass(frozen=True)
class PlaceArray:
    """Values of a type that there are of every place, side by side."""

    name: str
    dtype: DataType
    count: int


@dataclass(frozen=True)
class PlaceValues:
    """`scope` leaves values of each place in `arrays`."""

    scope: Scope
    arrays: tuple[PlaceArray, ...]


@dataclass(frozen=True)
class Images:
    """`count` images of so many `elements`, in so many `slots` for each plane. A thread is at
    `place`, a vector of the row of an image; `idle` ones are at none until rows are dealt to
    threads. For these what there is one of per column is left `at_places`. What is read of `rows`
    alone comes to arrays of their names first."""

    planes: tuple[ImagePlane, ...]
    slots: int
    place: IterDomain
    count: int
    elements: int
    idle: int
    at_places: PlaceValues
    rows: tuple[tuple[str, VectorAccess], ...]

    @property
    def bytes_of_slots(self) -> dict[str, int]:
        """By plane. They begin at whole accesses, as images are whole ones."""
        held = self.slots * self.elements
        return {plane.name: held * plane.dtype.itemsize for plane in self.planes}

    def __str__(self) -> str:
        return "\n".join(
            f"  image {plane.pointer}{''.join(f' -> {to}' for to in plane.stored)}, "
            f"{self.elements} x {plane.dtype}, {self.slots} slots"
            for plane in self.planes
        )
