"""T6 where what is turned is loaded from rows that align nothing: squares whose loads lag.

    T1[j, i] = T0[i, j], j{577}         row i of T0 begins 577*i elements behind the first one

A square of 64 x 64 would load 64 elements of each row one by one. Here each row of the square is
loaded in whole vectors, from the aligned one on in which it begins, and lies in shared memory as
many elements late. A row of 64 and what may be beside it are nine vectors, which have room for 65
elements: squares are as long along `down` as leaves their number least.
"""

from __future__ import annotations

from dataclasses import dataclass

from thunder_fuser.analysis.digits import Form, atom, ceil_div, divmod_form, scale, substitute
from thunder_fuser.analysis.layout import MAX_ALIGNMENT, WIDE_ENOUGH
from thunder_fuser.ir.domain import IterDomain, axis
from thunder_fuser.schedule.classes import IterationClass
from thunder_fuser.schedule.runs import large_accesses
from thunder_fuser.schedule.tiles import (
    LateTile,
    Square,
    Tile,
    Walk,
    is_turned_by,
    lanes_of,
    turned_bytes,
)
from thunder_fuser.target import SHARED_UNASKED

MIN_COPY = 4  # bytes that the hardware copies to shared memory in the background, at least
NARROWEST = 2  # bytes of an element of what is large
BESIDE = 64  # squares along `down` whose blocks, which load parts of the same lines, run together


@dataclass(frozen=True, eq=False)
class LaggingTile(LateTile):
    """Squares of so many `rows` along `down`, of which a block has those from `first` on. What is
    turned is walked by element along `turned_down`."""

    rows: int
    first: IterDomain

    @property
    def computed(self) -> Walk:
        return Walk(self.down, self.rows, self.across, self.vectors, self.vectors)

    @property
    def moved(self) -> Walk:
        count = _vectors(self.side, self.run)
        row, vector = self.turned_across, self.turned_down
        return Walk(row, self.side, vector, count, count, step=self.run, reach=self.rows)

    @property
    def pitch(self) -> int:
        return _vectors(self.side, self.run) * self.run

    def __str__(self) -> str:
        return f"squares of {self.rows} x {self.side} that are loaded late"

    @property
    def along(self) -> Form:
        return atom(self.turned_down)

    def begin(self, offset: Form) -> Form:
        """The aligned vector in which what lies at a place along `turned_down` is."""
        place = super().begin(offset)
        return scale(divmod_form(place, self.run)[0], self.run)

    def late(self, offset: Form) -> Form:
        return divmod_form(substitute(offset, {self.down: atom(self.first)}), self.run)[1]


@dataclass(frozen=True)
class LaggingSquare(Square):
    """That of a class whose turned accesses are loads."""

    @property
    def rows(self) -> int:
        """Elements along `down`, of which any `run` beside each other are in the vectors of a row:
        as many in each of the fewest blocks."""
        most = self.run * _vectors(self.side, self.run) - (self.run - 1)
        return ceil_div(self.down.size, ceil_div(self.down.size, most))

    @property
    def order(self) -> tuple[IterDomain, IterDomain]:
        """Blocks that load parts of the same lines run one after another, if they are not many."""
        is_long = self.down.size > BESIDE * self.rows
        return (self.down, self.across) if is_long else (self.across, self.down)

    def tile(self, across: IterDomain, lane: IterDomain | None) -> Tile:
        turned = axis(self.down.size + self.run - 1), axis(self.across.size)
        walked = (self.down, across, lane, *turned)
        vectors, first = self.side // self.lanes, axis(self.down.size)
        return LaggingTile(vectors, self.run, *walked, self.rows, first)


def lagging(found: Square, most: int) -> Square:
    """`found`, or squares of which what is turned is loaded in wider vectors."""
    made = (_lagging(found.group, *pair, most) for pair in found.pairs)
    return next((square for square in made if square is not None), found)


def _lagging(
    group: IterationClass, down: IterDomain, across: IterDomain, most: int
) -> LaggingSquare | None:
    """None where rows of what is turned are aligned, or are stored, or shorter than half a square,
    and where what is not turned is moved element by element, too, or in bytes: with masks beside
    gradients it was slower. Elements that a write in place reads have one reader."""
    moved = [a for a in dict.fromkeys(group.accesses) if is_turned_by(a[1], down, across)]
    stored = {nest.store.target for nest in group.nests}
    sizes = [tv.dtype.itemsize for tv, _ in moved] or [0]
    made = LaggingSquare(group, down, across, lanes_of(across, most), most)
    layouts, place = group.segment.layouts, turned_bytes(group, down, across)
    room = made.side * made.run * (_vectors(made.side, made.run) + 1)
    can_lag = (
        lanes_of(down, most) * max(sizes) < WIDE_ENOUGH <= made.lanes * max(sizes)
        and most * min(sizes) >= MIN_COPY
        and min(tv.dtype.itemsize for tv, _ in large_accesses(group)) >= NARROWEST
        and not any(tv in stored for tv, _ in moved)
        and all(layouts[tv].alignment % MAX_ALIGNMENT == 0 for tv, _ in moved)
        and not any(store.is_in_place for store in group.segment.stores)
        and 2 * min(down.size, across.size) >= made.side
        and place * room <= SHARED_UNASKED
    )
    return made if can_lag else None


def _vectors(side: int, run: int) -> int:
    """Of a row, whose first one may begin in a vector."""
    return side // run + 1
