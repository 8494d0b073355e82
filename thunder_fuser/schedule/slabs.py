"""Transposes of which one axis is short: a block takes all of it, and turns one run of memory.

    T1[p, c] = T0[c, p]             c{100}: 64 of p are 6400 neighbours in T1, moved in whole
                                    vectors, whatever rows of 100 are aligned to

    T1[n, p, c] = T0[n, c, p]       p{49}, c{16}: rows of 49 align nothing, but 5 images are 3920
                                    neighbours in T0; n and c are walked as one axis

    T1[h, w, p, q, c] = T0[c, h, p, w, q]       c{313}, q{2}: two places lie side by side in T0, but
                                    eight are 2504 neighbours in T1; h, w, p and q are one axis

    T1[h, w, p, q, c] = T0[c, h, p, w, q]       c{31}, p{2}, w{16}: a block has room for all of an
                                    h, 64 places side by side in both, in two orders

    T1[n, p, c] = T0[n, c, p]       p{1517}, c{150}: T0 is read element by element, of whichever two
                                    images, and 64 of n and p are 9600 neighbours in T1

What is turned must lie dense over both axes, and vectors be wider than those of squares, or squares
emptier. Runs of what is turned may be wider than vectors of the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod

from thunder_fuser.analysis.digits import (
    ZERO,
    Form,
    add,
    atom,
    ceil_div,
    combine,
    divmod_form,
    scale,
    substitute,
)
from thunder_fuser.ir.domain import IterDomain, axis
from thunder_fuser.schedule.classes import IterationClass
from thunder_fuser.schedule.lagging import lagging
from thunder_fuser.schedule.reordered import reordered
from thunder_fuser.schedule.runs import is_plain, large_accesses, merged, weight
from thunder_fuser.schedule.sheared import ShearedSquare, sheared
from thunder_fuser.schedule.tiles import (
    MIN_EXTENT,
    MIN_SIDE,
    MIN_TURNED,
    VECTORS,
    Square,
    Tile,
    Walk,
    is_turned_by,
    lanes_of,
    most_lanes,
    pairs_of,
    square,
    turned_bytes,
)
from thunder_fuser.target import SHARED_UNASKED

SHORT = 320  # elements of an axis that a block takes all of, at most
ENOUGH = 512  # vectors of a block: 4 for each of its threads
MOST = 1024
FEW = 2  # blocks of a row, which may have more for a third one
SINGLES = 5120  # elements of a block that moves them one by one: 40 for each of its threads
MOST_SINGLES = 2 * SINGLES
LINE = 64  # elements side by side, of 2 bytes each
WHOLE = 16  # elements of a row that threads side by side load or store: a sector, of 2 bytes each
EMPTY = 5  # a square is emptier than that of which a fifth is


@dataclass(frozen=True, eq=False)
class SlabTile(Tile):
    """All of `down`, and so many `vectors` of `across`, of which those `beside` each other are
    computed by threads side by side. Turned accesses walk vectors of `turned_down`, as many as it
    has elements, in each `turned_across`, which is as much as a run of `across` is. They may have
    the places of a block in an order of their own, in which a place along `across` is `order`."""

    beside: int
    order: Form | None = None

    @property
    def parts(self) -> int:
        """Vectors of `across` that a run is."""
        return self.run // self.lanes

    @property
    def pitch(self) -> int:
        return pitch(self.down)

    @property
    def computed(self) -> Walk:
        keeps = self.lanes == 1 and self.beside == self.vectors
        return Walk(self.down, self.down.size, self.across, self.vectors, self.beside, keeps)

    @property
    def moved(self) -> Walk:
        long = self.down.size
        return Walk(self.turned_across, self.vectors // self.parts, self.turned_down, long, long)

    @property
    def elements(self) -> int:
        return self.vectors * self.pitch * self.lanes

    def __str__(self) -> str:
        order = "" if self.order is None else ", in two orders"
        return f"slabs of {self.down.size} x {self.side}{order}"

    def turned(self, offset: Form) -> Form | None:
        """What has one row for many places of `across`, as of each of the images that are one axis
        with it, lies in no such rows."""
        across = self.across if self.lane is None else self.lane
        if self.order is None and weight(offset, across) != self.down.size:
            return None
        return super().turned(offset)

    def begin(self, offset: Form) -> Form:
        """A vector may begin anywhere in a row, and goes on in the next one."""
        lane = {} if self.lane is None else {self.lane: ZERO}
        outer = substitute(offset, {self.across: ZERO, self.down: ZERO, **lane})
        along = scale(atom(self.turned_down), self.run)
        across = scale(atom(self.turned_across), self.run * self.down.size)
        return add(outer, add(across, along))


def pitch(down: IterDomain) -> int:
    """Vectors in shared memory from a run of `across` to the next one: an odd number, so that
    threads side by side along either axis meet no bank twice."""
    return down.size | 1


@dataclass(frozen=True)
class Slab(Square):
    """That of a class whose images may be one with `across`, of which some places are `left` that
    are no whole run."""

    vectors: int
    beside: int
    places: Form | None = None  # where each of `across` comes in what is turned

    @property
    def left(self) -> int:
        return self.across.size % self.run

    @property
    def fills_lines(self) -> bool:
        return self.lanes > 1

    @property
    def elements(self) -> int:
        return self.vectors * pitch(self.down) * self.lanes

    def tile(self, across: IterDomain, lane: IterDomain | None) -> Tile:
        turned = axis(self.down.size), axis(across.size * self.lanes // self.run)
        order = None if self.places is None else self._order(self.places, across, lane)
        walked = (self.down, across, lane, *turned, self.beside, order)
        return SlabTile(self.vectors, self.run, *walked)

    def _order(self, places: Form, across: IterDomain, lane: IterDomain | None) -> Form:
        """Where a lane of a vector comes in its block."""
        _, own = divmod_form(places, self.vectors * self.lanes)
        whole = atom(across) if lane is None else combine(atom(across), atom(lane), self.lanes)
        return substitute(own, {self.across: whole})


def turned(group: IterationClass, max_lanes: int, busy: int) -> Square | None:
    """How a class is turned: in slabs where these have wider vectors than squares or are fuller,
    unless fewer than `busy` elements need all blocks there can be, or in squares."""
    is_busy = prod(a.size for a in group.axes) >= busy
    found = square(group, max_lanes, is_busy)
    if found is not None and is_busy:
        found = sheared(found, most_lanes(group, max_lanes))
    made = _slabs(group, max_lanes) if is_busy else []
    better = (slab for slab in made if found is None or _is_better(slab, found))
    best = max(better, key=_widths, default=None)
    if best is not None:
        return best
    if found is not None and is_busy and not isinstance(found, ShearedSquare):
        found = lagging(found, most_lanes(group, max_lanes))
    return None if found is None or found.is_empty else found


def _slabs(group: IterationClass, max_lanes: int) -> list[Slab]:
    """Those of either of the two axes. First comes the one with the longer rows of what is not
    turned, if either is shorter than a warp, else the one with fewer loads of that, which registers
    hold."""
    most = most_lanes(group, max_lanes)

    def cost(pair: tuple[IterDomain, IterDomain]) -> tuple[int, int]:
        return -min(pair[1].size, MIN_SIDE), _loads_beside(group, *pair)

    pairs = sorted(pairs_of(group), key=cost)
    made = [of(group, *pair, most) for of in (_slab, _in_two_orders) for pair in pairs]
    return [slab for slab in made if slab is not None]


def _loads_beside(group: IterationClass, down: IterDomain, across: IterDomain) -> int:
    """Large loads that are not turned."""
    read = [form for _, form in large_accesses(group) if form in group.forms_read]
    return sum(not is_turned_by(form, down, across) for form in read)


def _widths(found: Square) -> list[int]:
    """Elements of the vectors of both sides, of the narrower one first."""
    return sorted((found.lanes, found.run))


def _is_better(made: Slab, found: Square) -> bool:
    """True where the narrowest vectors are wider, or the others of single elements, or where blocks
    with as wide ones are fuller and need no second order."""
    ours, theirs = _widths(made), _widths(found)
    are_single = made.lanes == 1 and ours[1] != theirs[1]
    if isinstance(found, ShearedSquare):
        return ours >= theirs
    if ours[0] != theirs[0] or made.places is not None or are_single:
        return ours > theirs
    room = ceil_div(made.down.size, found.side) * found.side
    is_fuller = EMPTY * (room - made.down.size) >= room
    return is_fuller and (found.is_empty or ours >= theirs)


def _slab(group: IterationClass, down: IterDomain, across: IterDomain, most: int) -> Slab | None:
    """All of `down`, where what is turned lies dense and has room in shared memory. None for a
    single vector, of which no axis is left, and for pairs that a thread has all of."""
    moved = _moved(group, down, across)
    if down.size > SHORT or not moved or any(weight(f, across) != down.size for f in moved):
        return None
    is_dense = _goes_on(group, across, down)
    if down.size < MIN_TURNED or (across.size < MIN_TURNED and is_dense):
        return None
    lanes, place = lanes_of(across, most), turned_bytes(group, down, across)
    if lanes == 1 < most and (single := _of_singles(group, down, across, most)) is not None:
        return single
    row, line = across.size // lanes, max(MIN_SIDE // lanes, VECTORS)
    beside, vectors = line, _vectors(down.size, line)
    while across.size < vectors * lanes and (images := _images(group, down, across)) is not None:
        group, across = merged(group, images, across)
        vectors = _of_images(down.size, row, lanes, most)
        beside = row if is_dense or row * lanes >= WHOLE else vectors
    vectors = _alike(across.size // lanes, vectors)
    beside = min(beside, vectors)
    if across.size == lanes:
        return None
    run = gcd(across.size, vectors * lanes, most)
    found = Slab(group, down, across, lanes, run, vectors, gcd(vectors, beside))
    return found if place * found.elements <= SHARED_UNASKED else None


def _in_two_orders(
    group: IterationClass, down: IterDomain, across: IterDomain, most: int
) -> Slab | None:
    """All of `down` for places that either side has in an order of its own: for all that both have
    side by side, which is one period or several."""
    found = reordered(group, down, across)
    if found is None or not MIN_EXTENT <= down.size <= SHORT:
        return None
    lanes = gcd(found.period, most)
    if lanes == 1:
        return None
    row = found.period // lanes
    vectors = min(max(ENOUGH // (down.size * row), 1) * row, found.across.size // lanes)
    walked = (down, found.across, lanes, lanes, vectors, _about_a_line(row))
    slab = Slab(found.group, *walked, found.places)
    place = turned_bytes(found.group, down, found.across)
    return slab if place * slab.elements <= SHARED_UNASKED else None


def _about_a_line(row: int) -> int:
    """Vectors of a row for threads side by side: of more, whose places lie at multiples of a power
    of two in shared memory, several would meet each bank."""
    found = [beside for beside in range(VECTORS // 2, 2 * VECTORS + 1) if row % beside == 0]
    return max((b for b in found if b <= VECTORS), default=min(found, default=row))


def _of_singles(
    group: IterationClass, down: IterDomain, across: IterDomain, most: int
) -> Slab | None:
    """What is not turned is moved element by element, by threads that each have a place of `across`
    and a row after the other. So its images may lie anywhere: they are one axis with `across` if
    what is turned is then aligned. Short rows that lie side by side are walked as they lie. None
    for other short ones, and for fewer places than a block has."""
    place, row = turned_bytes(group, down, across), across.size
    if row < WHOLE and not _goes_on(group, across, down):
        return None
    vectors = _singles(down.size, place)
    while across.size % most and (images := _images(group, down, across)) is not None:
        group, across = merged(group, images, across)
    beside = row if row < WHOLE else vectors
    run = gcd(vectors, _aligned(group, down, across, most))
    found = Slab(group, down, across, 1, run, vectors, gcd(vectors, beside))
    return found if place * found.elements <= SHARED_UNASKED and across.size >= vectors else None


def _singles(rows: int, place: int) -> int:
    """Elements of each of so many rows: a power of two, so that threads keep their places; lines,
    or half of those of many rows, and what has room in shared memory."""
    wanted = max(SINGLES // rows, LINE)
    if rows * wanted > MOST_SINGLES:
        wanted //= 2
    room = SHARED_UNASKED // (place * (rows + 1))
    return 1 << min(wanted, room).bit_length() - 1


def _aligned(group: IterationClass, down: IterDomain, across: IterDomain, most: int) -> int:
    """Elements that are aligned wherever what is turned begins."""
    terms = [term for form in _moved(group, down, across) for term in form.terms]
    return gcd(most, *(step for step, digit in terms if digit.base not in (down, across)))


def _goes_on(group: IterationClass, across: IterDomain, down: IterDomain) -> bool:
    """True where what is not turned lies dense over both axes, too."""
    direct = [f for _, f in large_accesses(group) if not is_turned_by(f, down, across)]
    return all(weight(form, down) == across.size for form in direct)


def _of_images(rows: int, row: int, lanes: int, most: int) -> int:
    """Vectors of a block that has several images of `row` vectors each, and so many rows of them:
    whole images, and as many of narrow vectors as make up wide ones."""
    wide = most // lanes
    images = max(ENOUGH * min(wide, 2) // rows // row, 1)
    return max(images // wide, 1) * wide * row if row % wide else images * row


def _moved(group: IterationClass, down: IterDomain, across: IterDomain) -> list[Form]:
    """Where what is turned lies."""
    return [form for _, form in group.accesses if is_turned_by(form, down, across)]


def _vectors(rows: int, line: int) -> int:
    """Of a block with so many rows: whole lines, or half of one of many rows."""
    if rows * line > MOST:
        return line // 2
    return max(ENOUGH // rows // line, 1) * line


def _alike(row: int, wanted: int) -> int:
    """As many vectors of a row as `wanted`; if few blocks have them and another would have a few,
    those have its too, in odd numbers: of even ones threads side by side meet more banks twice."""
    blocks, rest = divmod(row, wanted)
    if not blocks:
        return row
    alike = ceil_div(row, blocks)
    return alike if alike % 2 and 4 * rest <= wanted and blocks <= FEW else wanted


def _images(group: IterationClass, down: IterDomain, across: IterDomain) -> IterDomain | None:
    """The axis along which what is turned goes on behind `across`."""
    moved, length = _moved(group, down, across), across.size * down.size
    for outer in group.axes:
        goes_on = all(weight(form, outer) == length for form in moved)
        is_cut = any(form.bases & {outer, across} for form in group.windows)
        if goes_on and not is_cut and all(is_plain(form, outer) for form in group.forms):
            return outer
    return None
