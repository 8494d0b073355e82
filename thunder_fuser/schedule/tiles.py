"""T6, transposes in the map template: a block turns squares of elements in shared memory.

    T2[i, j] = T0[j, i] + T1[i, j]      threads walk j, along which T1 and T2 are contiguous; the
                                        block first loads a square of T0 along i and keeps it

Values are computed along the axis `across`. Accesses that are contiguous along the axis `down`
instead are *turned*: loads before all computing, stores after it, in vectors along `down`. Each of
the two axes may be several in one, for accesses that are contiguous along the other one to divide.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from math import gcd, prod

from thunder_fuser.analysis.digits import (
    Form,
    atom,
    ceil_div,
    divmod_form,
    loads_in,
    scale,
    substitute,
)
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.ir.domain import IterDomain, axis
from thunder_fuser.schedule.classes import IterationClass
from thunder_fuser.schedule.nest import Nest
from thunder_fuser.schedule.runs import is_plain, large_accesses, lengthened, runs_of, weight
from thunder_fuser.target import SHARED_UNASKED

MIN_SIDE = 32  # elements: threads side by side that a warp has
VECTORS = 8  # of one side of a square: 128 bytes of vectors of 16
MIN_EXTENT = 16  # a square over a shorter axis would be mostly empty
MIN_TURNED = 3  # of an axis of fewer elements a thread has all
FEW = 8  # squares side by side, which blocks that run at the same time walk together
FEW_OF_SINGLES = 64  # the same where one side moves single elements, and parts of lines everywhere


@dataclass(frozen=True)
class Walk:
    """The vectors of a block: `rows` of one axis, with so many `vectors` of the other each. Threads
    side by side have those `beside` each other, then those of the next row. One that `keeps` its
    vectors has them of one row after the other. Its first `lead` rows the block before has too."""

    row: IterDomain
    rows: int
    vector: IterDomain
    vectors: int
    beside: int
    keeps: bool = False
    lead: int = 0
    step: int = 1
    reach: int | None = None

    @property
    def places(self) -> int:
        return self.rows * self.vectors

    @property
    def own(self) -> int:
        """Of the axis of vectors, from where a block begins to where the next one does."""
        return self.vectors if self.reach is None else self.reach


@dataclass(frozen=True, eq=False)
class Tile:
    """Squares over `down`, in elements, and `across`, in vectors of `lane`: so many `vectors` a
    side. Turned accesses walk `turned_down`, in vectors of `run` elements, and `turned_across`, in
    elements."""

    vectors: int
    run: int
    down: IterDomain
    across: IterDomain
    lane: IterDomain | None
    turned_down: IterDomain
    turned_across: IterDomain

    @property
    def lanes(self) -> int:
        return 1 if self.lane is None else self.lane.size

    @property
    def side(self) -> int:
        """Elements along each of the two sides."""
        return self.vectors * self.lanes

    @property
    def computed(self) -> Walk:
        """How threads compute values, and what is not turned is loaded and stored."""
        return Walk(self.down, self.side, self.across, self.vectors, self.vectors)

    @property
    def moved(self) -> Walk:
        """How what is turned is loaded and stored."""
        vectors = self.side // self.run
        return Walk(self.turned_across, self.side, self.turned_down, vectors, vectors)

    @property
    def elements(self) -> int:
        """That a square has room for in shared memory."""
        return self.side**2

    def __str__(self) -> str:
        return f"squares of {self.side} x {self.side}"

    def counts(self, axes: Sequence[IterDomain]) -> tuple[int, ...]:
        """Blocks along each of a class's axes."""
        return tuple(self.blocks(a) for a in axes)

    def blocks(self, along: IterDomain) -> int:
        """Blocks along one axis."""
        step = {self.down: self.computed.rows, self.across: self.vectors}
        return ceil_div(along.size, step.get(along, 1))

    def turned(self, offset: Form) -> Form | None:
        """`offset` where a turned access begins; None for one that is not turned, or that has one
        element for all lanes of a vector."""
        across = self.across if self.lane is None else self.lane
        return self.begin(offset) if is_turned_by(offset, self.down, across) else None

    @property
    def along(self) -> Form:
        """Where along `down` a vector of a turned access begins."""
        return scale(atom(self.turned_down), self.run)

    def begin(self, offset: Form) -> Form:
        """Where the vectors of a turned access begin."""
        high, low = divmod_form(atom(self.turned_across), self.lanes)
        lane = {} if self.lane is None else {self.lane: low}
        return substitute(offset, {self.across: high, self.down: self.along, **lane})


@dataclass(frozen=True, eq=False)
class LateTile(Tile, ABC):
    """Squares of which each row of what is turned begins as many elements behind a vector in shared
    memory as it does in memory, so that whole vectors are moved between the two."""

    @property
    @abstractmethod
    def pitch(self) -> int:
        """Elements in shared memory from a row of what is turned to the next one."""

    @property
    def elements(self) -> int:
        """With a vector left out behind the rows of each of `across`: threads side by side so meet
        few banks twice."""
        return self.side * self.pitch + self.vectors * self.run

    @abstractmethod
    def late(self, offset: Form) -> Form:
        """Elements by which the row at `offset` begins behind a vector."""


@dataclass(frozen=True)
class Square:
    """A class, those of its axes that a tile would turn, before they are cut, the lanes to cut, and
    the elements of what is turned, which may be fewer."""

    group: IterationClass
    down: IterDomain
    across: IterDomain
    lanes: int
    run: int

    @property
    def side(self) -> int:
        """Elements along each of its two sides."""
        return max(MIN_SIDE, VECTORS * self.lanes)

    @property
    def pairs(self) -> list[tuple[IterDomain, IterDomain]]:
        """Those axes that its class could be turned along and across, its own `down` first."""
        return sorted(pairs_of(self.group), key=lambda pair: pair[0] is not self.down)

    @property
    def left(self) -> int:
        """Elements of `across` that it does not have."""
        return 0

    @property
    def fills_lines(self) -> bool:
        """True where what is not turned is stored in whole lines, but for its ends."""
        return True

    @property
    def is_empty(self) -> bool:
        """True where most of its squares would be."""
        return min(self.down.size, self.across.size) < MIN_EXTENT

    @property
    def order(self) -> tuple[IterDomain, IterDomain]:
        """The two axes as blocks walk them. Where one has few squares it is the inner one: what
        lies along it ends anywhere in a line, whose parts are then written at the same time."""
        few = FEW_OF_SINGLES if min(self.lanes, self.run) == 1 else FEW
        down, across = (ceil_div(a.size, self.side) for a in (self.down, self.across))
        return (self.across, self.down) if down <= few < across else (self.down, self.across)

    def tile(self, across: IterDomain, lane: IterDomain | None) -> Tile:
        """The tile, once `across` is cut into vectors of `lane`."""
        turned = axis(self.down.size // self.run), axis(self.across.size)
        return Tile(self.side // self.lanes, self.run, self.down, across, lane, *turned)


def square(group: IterationClass, max_lanes: int, is_busy: bool) -> Square | None:
    """The two axes along one of which each large access is contiguous, or None; on a busy machine
    as long as memory is. Values are computed along that of the two for which the fewest bytes are
    turned, or which has more lanes. Where what is turned has fewer, squares are of the larger ones
    if these leave enough blocks."""
    most = most_lanes(group, max_lanes)
    if is_busy and len(runs_of(group)) == 2:
        group = lengthened(group, max(MIN_SIDE, VECTORS * most))
    pairs = pairs_of(group)
    if not pairs or any(a.size < MIN_TURNED for a in pairs[0]):
        return None

    def cost(pair: tuple[IterDomain, ...]) -> tuple[int, int]:
        return _bytes_moved(group, *pair), -is_busy * lanes_of(pair[1], most)

    down, across = min(pairs, key=cost)
    lanes, run = lanes_of(across, most), lanes_of(down, most)
    if run > lanes or not is_busy:
        lanes = run = min(lanes, run)
    found = Square(group, down, across, lanes, run)
    held = turned_bytes(group, down, across) * found.side**2
    return found if 0 < held <= SHARED_UNASKED else None


def pairs_of(group: IterationClass) -> list[tuple[IterDomain, IterDomain]]:
    """The two axes along which large accesses are contiguous, in both orders: one along which it is
    turned, and one along which it is not."""
    runs = runs_of(group)
    if len(runs) != 2:
        return []
    return [(a, b) for a, b in permutations(runs) if _can_walk(group, a, b)]


def most_lanes(group: IterationClass, max_lanes: int) -> int:
    """Elements of the widest vector of those large tensors that have the narrowest ones."""
    narrowest = min(tv.dtype.itemsize for tv, _ in large_accesses(group))
    return min(max_lanes, max(MAX_ALIGNMENT // narrowest, 1))


def lanes_of(axis: IterDomain, most: int) -> int:
    """The widest vectors that leave nothing of an axis."""
    return gcd(axis.size, most)


def _can_walk(group: IterationClass, down: IterDomain, across: IterDomain) -> bool:
    """True where vectors of either axis are vectors of memory, and no loaded index and no window
    divides one of them or is itself read along it."""
    large, both = large_accesses(group), frozenset((down, across))
    direct = [form for _, form in large if not is_turned_by(form, down, across)]
    return (
        all(is_plain(form, down) and is_plain(form, across) for form in group.windows)
        and all(is_plain(form, across) for form in direct)
        and all(both.isdisjoint(loaded.bases) for loaded in loads_in(group.forms))
    )


def _bytes_moved(group: IterationClass, down: IterDomain, across: IterDomain) -> int:
    """Bytes of all that is turned; stores share loads."""
    layouts = group.segment.layouts
    return sum(
        layouts[tv].numel * tv.dtype.itemsize
        for tv, form in dict.fromkeys(group.accesses)
        if is_turned_by(form, down, across)
    )


def turned_bytes(group: IterationClass, down: IterDomain, across: IterDomain) -> int:
    """Bytes of one place of all that is turned."""
    return sum(
        tv.dtype.itemsize * _instances(form, group.nests)
        for tv, form in dict.fromkeys(group.accesses)
        if is_turned_by(form, down, across)
    )


def is_turned_by(form: Form, down: IterDomain, across: IterDomain) -> bool:
    """True where what lies at `form` is contiguous along `down`, and other elements along
    `across`."""
    is_along = weight(form, down) == 1 and is_plain(form, down)
    return is_along and across in form.bases and weight(form, across) != 1


def _instances(form: Form, nests: Sequence[Nest]) -> int:
    """How many elements one thread has of an access, over its unrolled axes."""
    return prod(a.size for nest in nests for a in nest.unrolled if a in form.bases)
