"""Images of a kept column kernel that pass through shared memory.

image T0 -> T9, 25088 x bf16, 2 slots         T9 takes the place of T0, element by element
turned image T5, 49 x 512 x bf16, 2 slots     the rows of each place, one place behind another
"""

from __future__ import annotations

from dataclasses import dataclass

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.kernel.scopes import Scope
from thunder_fuser.kernel.statements import VectorAccess
from thunder_fuser.target import LINE

PIECES = 2  # with four, of which each has few rows for all threads, it took longer


@dataclass(frozen=True)
class ImagePlane:
    """A plane that comes from `pointer` to the array `name`, an image at a time; what its elements
    become goes to each of `stored`. Where it is turned, the rows of each place come, and places lie
    a `pitch` apart in the array."""

    name: str
    pointer: str
    dtype: DataType
    pitch: int | None = None
    stored: tuple[str, ...] = ()


@dataclass(frozen=True)
class DealtRows:
    """Rows of an image as threads have them: so many `at_once`, each by some `sharers`, which have
    every so many-th place; and those of a thread."""

    at_once: int
    sharers: int
    per_thread: int

    @staticmethod
    def of(rows: int, threads: int, vectors: int, pieces: int = 1) -> DealtRows:
        """Of an image that comes and goes in so many `pieces`, each at a time."""
        at_once = min(rows // pieces, threads)
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
    threads: where sums over all places are beside, or it `turns_out` what it stores. For these what
    there is one of per column is left `at_places`. What is read of `rows` alone comes to arrays of
    their names first. An image in the only slot is stored in `pieces` of so many rows, and those of
    the next one come while others are worked on."""

    planes: tuple[ImagePlane, ...]
    slots: int
    place: IterDomain
    count: int
    elements: int
    lanes: int
    idle: int
    at_places: PlaceValues
    rows: tuple[tuple[str, VectorAccess], ...]
    turns_out: bool = False
    pieces: int = 1

    @property
    def row_count(self) -> int:
        """Of an image."""
        return self.elements // self.places

    @property
    def places(self) -> int:
        """Of a row."""
        return self.place.size * self.lanes

    @property
    def vector(self) -> int:
        """Rows that threads at places have at a time: of what is turned, as much as is one access;
        1 where nothing is."""
        sizes = [plane.dtype.itemsize for plane in self.planes if plane.pitch is not None]
        return MAX_ALIGNMENT // max(sizes) if sizes else 1

    @property
    def has_pairs(self) -> bool:
        """True where threads at rows have two places at a time: of rows that are read or stored
        element by element as they lie, which are even in number, so that the first place of each
        other one begins a pair."""
        sizes = [plane.dtype.itemsize for plane in self.planes if plane.pitch is None]
        is_even = self.row_count % 2 == 0 or self.places % 2 == 0
        is_narrow = all(2 * size <= MAX_ALIGNMENT for size in sizes)
        return self.lanes == 1 and not self.turns_out and is_even and is_narrow

    def held(self, plane: ImagePlane) -> int:
        """Elements from a slot to the next one, which begins at a whole line."""
        held = self.elements if plane.pitch is None else self.places * plane.pitch
        unit = LINE // plane.dtype.itemsize
        return ceil_div(held, unit) * unit

    @property
    def bytes_of_slots(self) -> dict[str, int]:
        """By plane."""
        return {p.name: self.slots * self.held(p) * p.dtype.itemsize for p in self.planes}

    @property
    def piece_rows(self) -> int:
        """Of a piece."""
        return self.row_count // self.pieces

    def _moved(self, plane: ImagePlane) -> str:
        turned = "" if plane.pitch is None else "turned "
        each = f"{self.elements}" if not turned else f"{self.places} x {self.row_count}"
        to = "".join(f" -> {name}" for name in plane.stored)
        slots = f"{self.slots} slots" if self.pieces == 1 else f"{self.pieces} pieces"
        return f"  {turned}image {plane.pointer}{to}, {each} x {plane.dtype}, {slots}"

    def __str__(self) -> str:
        return "\n".join(map(self._moved, self.planes))


def pieces_of(rows: int, threads: int) -> int:
    """Of an image of so many rows: all of whole accesses, and of no more rows than threads."""
    is_whole = rows % (PIECES * MAX_ALIGNMENT) == 0
    return PIECES if is_whole and rows <= PIECES * threads else 1
