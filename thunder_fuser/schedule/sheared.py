"""T6 where what is turned is stored in rows that align nothing: squares that follow the lines.

    T1[j, i] = T0[i, j], i{4097}        row j of T1 begins 4097*j elements behind the first one

A square of 64 x 64 would store 64 elements of a row at a time, one by one, and parts of a sector of
memory at both ends: 203 us for 269 MB on an H200. Here each row of the square begins where a sector
does, up to 15 elements before the square, and all vectors but those at the ends of a row are whole:
115 us. A block loads 16 rows more for that, which its neighbour has loaded too.
"""

from __future__ import annotations

from dataclasses import dataclass

from thunder_fuser.analysis.digits import (
    ZERO,
    Form,
    add,
    atom,
    ceil_div,
    divmod_form,
    scale,
    substitute,
)
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.ir.domain import IterDomain, axis
from thunder_fuser.schedule.classes import IterationClass
from thunder_fuser.schedule.tiles import (
    FEW,
    LateTile,
    Square,
    Tile,
    Walk,
    is_turned_by,
    lanes_of,
)
from thunder_fuser.target import LINE, SECTOR, SHARED_UNASKED

SIZES = (2, 4)  # bytes of the largest elements


@dataclass(frozen=True, eq=False)
class ShearedTile(LateTile):
    """Squares whose rows of what is turned begin up to `lead` elements earlier than they do. They
    have that many more rows of `down`, which the block before has too."""

    lead: int
    itemsize: int

    @property
    def computed(self) -> Walk:
        rows = self.lead + self.side
        return Walk(self.down, rows, self.across, self.vectors, self.vectors, lead=self.lead)

    @property
    def pitch(self) -> int:
        return self.lead + self.side + self.lead

    @property
    def extent(self) -> int:
        """Blocks along `down`, whose last one may end that much earlier too."""
        return _blocks(self.down, self.side, self.lead)

    def __str__(self) -> str:
        return f"sheared squares of {self.side} x {self.side}"

    def blocks(self, along: IterDomain) -> int:
        return self.extent if along is self.down else super().blocks(along)

    def begin(self, offset: Form) -> Form:
        return add(super().begin(offset), scale(self._late(offset), -1))

    def window(self, offset: Form) -> Window:
        """Where along `down` the vectors of a turned access begin."""
        along = scale(atom(self.turned_down), self.run)
        return Window(add(along, scale(self._late(offset), -1)), self.down.size)

    def late(self, offset: Form) -> Form:
        return divmod_form(substitute(offset, {self.down: ZERO}), self.lead)[1]

    def _late(self, offset: Form) -> Form:
        """Elements by which a row begins behind a sector, as all vectors of it then would."""
        row = substitute(super().begin(offset), {self.turned_down: ZERO})
        return divmod_form(row, self.lead)[1]


@dataclass(frozen=True)
class ShearedSquare(Square):
    """That of a class whose turned accesses are stores, the largest of elements of such a size."""

    itemsize: int

    @property
    def side(self) -> int:
        return LINE // self.itemsize

    @property
    def lead(self) -> int:
        return SECTOR // self.itemsize

    @property
    def fills_lines(self) -> bool:
        """False, for what is loaded is loaded by two blocks."""
        return False

    @property
    def order(self) -> tuple[IterDomain, IterDomain]:
        """Blocks that store parts of the same lines run one after another, unless few squares lie
        across, which load them."""
        down, across = (ceil_div(a.size, self.side) for a in (self.down, self.across))
        return (self.down, self.across) if across <= FEW < down else (self.across, self.down)

    def tile(self, across: IterDomain, lane: IterDomain | None) -> Tile:
        vectors = self.side // self.run * _blocks(self.down, self.side, self.lead)
        turned = axis(vectors), axis(self.across.size)
        walked = (self.down, across, lane, *turned)
        return ShearedTile(self.side // self.lanes, self.run, *walked, self.lead, self.itemsize)


def sheared(found: Square, most: int) -> Square:
    """`found`, or squares with wider vectors that follow the rows of what is stored, also where it
    would be the values that lie along these, element by element."""
    made = (_sheared(found.group, *pair, most) for pair in found.pairs)
    return next((square for square in made if square is not None), found)


def _sheared(
    group: IterationClass, down: IterDomain, across: IterDomain, most: int
) -> ShearedSquare | None:
    """None where rows of what is turned are aligned, or are loaded, or so few that a third of what
    is loaded would be so twice, or squares would be emptier than half. Elements that a write in
    place reads have one reader."""
    moved = [a for a in dict.fromkeys(group.accesses) if is_turned_by(a[1], down, across)]
    is_stored = not any(form in group.forms_read for _, form in moved)
    itemsize = max((tv.dtype.itemsize for tv, _ in moved), default=0)
    if itemsize not in SIZES or not is_stored:
        return None
    run, lanes = MAX_ALIGNMENT // itemsize, lanes_of(across, most)
    made = ShearedSquare(group, down, across, lanes, run, itemsize)
    rows = _blocks(down, made.side, made.lead) * (made.side + made.lead)
    layouts = group.segment.layouts
    can_shear = (
        lanes_of(down, most) < run <= 2 * lanes
        and 2 * rows <= 3 * down.size
        and 2 * across.size >= made.side
        and all(layouts[tv].alignment % MAX_ALIGNMENT == 0 for tv, _ in moved)
        and not any(store.is_in_place for store in group.segment.stores)
        and len(moved) * itemsize * made.side * (made.side + 2 * made.lead) <= SHARED_UNASKED
    )
    return made if can_shear else None


def _blocks(down: IterDomain, side: int, lead: int) -> int:
    return ceil_div(down.size + lead - 1, side)
