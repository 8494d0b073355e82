"""What one block of the kept column template has: columns side by side, and threads for their rows.

    softmax over 32 channels            a line of each row, 32 rows a thread
    layer norm of 768 channels          a sector, such that two blocks are on a multiprocessor
    its gradient, with sums beside      two sectors at least, rather a line in the only block
    images of 512 x 14 x 14             four blocks of a cluster, each with all places of 128 rows
    images of 512 x 7 x 7               one block, in shared memory (`analysis/image_slots.py`)

Registers are estimated: what a thread keeps of its rows, the sums beside them, and what its columns
come to. What it reads once for its columns is in those of any thread for a start (`SCRATCH`), but
indices of eight bytes beside results of columns are more than these, and are counted: two blocks of
512 threads that the compiler was told of spilled 1.1 KB a thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.image_slots import ImagePlanes
from thunder_fuser.analysis.kept_rows import (
    SCRATCH,
    TALL,
    TALL_STORED,
    THREADS,
    KeptRows,
    are_kept_whole,
    blocks_of_image,
    is_part_of_warp,
    parts_of_columns,
    sharing,
)
from thunder_fuser.analysis.layout import registers_of
from thunder_fuser.analysis.met_columns import met_columns_held
from thunder_fuser.analysis.odd_columns import odd_sharing
from thunder_fuser.analysis.reductions import state_bytes
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.column_axes import ColumnAxes
from thunder_fuser.schedule.columns import narrowest
from thunder_fuser.schedule.images import SlotNeeds
from thunder_fuser.schedule.odd_columns import OddAxes
from thunder_fuser.schedule.parameters import KeptParameters
from thunder_fuser.schedule.phases import Phase
from thunder_fuser.schedule.rejected import Rejected
from thunder_fuser.schedule.strips import Turned, strip_bytes
from thunder_fuser.segment.segment import Segment
from thunder_fuser.target import (
    LINE,
    MAX_THREADS,
    REGISTER_BYTES,
    REGISTERS,
    SECTOR,
    SHARED_UNASKED,
    WARP,
    Target,
    clusters_up_to,
)

BLOCKS = 3  # of a multiprocessor, for which a block may take fewer columns
ALONE = 512  # threads of a block with such a line, at most: registers of twice as many spilled
RENEWED = 80  # registers of a thread that walks, of more of which it spilled converted values
PREFERRED = KeptParameters()


@dataclass(frozen=True)
class Held:
    """What a thread has of a row: registers of what it reads, and the `sums` beside, while blocks
    are `dealt` so many vectors of columns at a time, in `groups`; and what is `turned`. Columns may
    be the places of images, of whose rows each has so many vectors, and which may be in `slots` of
    shared memory. Whole rows may be stored. Registers of what is read of columns are `once`. Of
    columns that meet a sample has so many vectors. Phases could leave so many values `left` of each
    element for others."""

    kept: int
    turned: Turned
    sums: tuple[TensorView, ...]
    dealt: int
    image: int | None = None
    slots: SlotNeeds | None = None
    is_stored: bool = True
    once: int = 0
    met: int | None = None
    groups: int = 0
    left: int = 0


@dataclass(frozen=True)
class Tile:
    """What one block has: `across` vectors of columns, and `down` threads for their rows, of which
    the blocks of a `cluster` have an equal part each. Images may come to so many `slots` of shared
    memory; some threads have no places of these. The compiler is told so many `blocks` that fit on
    a multiprocessor: one, where it else spilled; of more, told of them, it spilled. A sample whose
    columns meet is of so many blocks `abreast`."""

    across: int
    down: int
    cluster: int = 1
    slots: int = 0
    idle: int = 0
    blocks: int | None = None
    abreast: int = 1

    @property
    def threads(self) -> int:
        return self.across * self.down + self.idle


@dataclass(frozen=True)
class Tiling:
    """A tile, and the blocks that are to be on a multiprocessor: of so many registers that a
    compiler which is not told would use those of one. Where it `renews` what it keeps, elements are
    converted anew in every phase, as registers have no room for converted ones."""

    tile: Tile
    blocks_at_once: int | None
    renews: bool


@dataclass(frozen=True, eq=False)
class Room:
    """Of a multiprocessor of the `target`, for what is `held` of a plane and for the `phases` of
    its columns, each of which is a `column` to what registers have of it."""

    segment: Segment
    axes: ColumnAxes
    phases: tuple[Phase, ...]
    held: Held
    column: KeptRows
    target: Target

    @staticmethod
    def of(
        segment: Segment, axes: ColumnAxes, phases: tuple[Phase, ...], held: Held, target: Target
    ) -> Room:
        long = [tv for phase in phases for tv, _ in phase.reductions]
        results = registers_of(tv.dtype.compute_type.itemsize for tv in long)
        states = max(sum(state_bytes(tv) for tv, _ in p.reductions) for p in phases)
        sums = states // REGISTER_BYTES
        is_one_phase = held.dealt and not held.turned.tensors and len(phases) == 1
        known = max(results, sums) if is_one_phase or held.met else results + sums
        column = KeptRows(axes.row.size, held.kept, len(held.sums), known * axes.lanes)
        return Room(segment, axes, phases, held, column, target)

    def having(self, once: int) -> Room:
        """With so many registers more, of what threads have once for their columns."""
        return replace(self, column=replace(self.column, results=self.column.results + once))

    @cached_property
    def reductions(self) -> list[TensorView]:
        """What the threads of a column bring together."""
        return [tv for phase in self.phases for tv, _ in phase.reductions]

    @cached_property
    def vector_bytes(self) -> int:
        """Of the narrowest that is read."""
        return self.axes.lanes * narrowest(self.segment, self.reductions)

    @property
    def enough(self) -> int:
        """Blocks, for which one may take fewer columns; any, where they are dealt so many."""
        return 0 if self.held.dealt else BLOCKS * self.target.multiprocessors

    @property
    def may_share(self) -> bool:
        """True where blocks of a cluster can send each other what a column has: a word or two."""
        return all(tv.expr.op.state_size == 1 for tv in self.reductions)

    def blocks(self, tile: Tile) -> int:
        """That fit."""
        of_states = sum(self._state_bytes(tile, tv) for tv in self.reductions)
        if of_states > SHARED_UNASKED:
            return 0
        asked = strip_bytes(self.axes, self.held.turned, tile.across) + self._met_bytes(tile)
        fit = self.target.shared_bytes // (asked + of_states) if asked else MAX_THREADS
        column = self.column.shared_by(tile.cluster)
        return min(fit, column.blocks(tile.threads, tile.down))

    def _met_bytes(self, tile: Tile) -> int:
        """Of the sums over columns, where shuffles do not bring them together."""
        rows = ceil_div(self.column.shared_by(tile.cluster).rows, tile.down)
        is_met = not is_part_of_warp(tile.across)
        of_row = sum(map(state_bytes, self.held.sums))
        return of_row * rows * tile.threads if is_met else 0

    def _state_bytes(self, tile: Tile, tv: TensorView) -> int:
        """Of shared memory, for the parts of each column: of warps, or of threads, padded."""
        lanes, values = self.axes.lanes, tv.expr.op.state_size
        parts = parts_of_columns(tile.across, tile.down, values)
        places = lanes * parts if parts is not None else (lanes + 1) * tile.down
        sent = (lanes + 1) * tile.cluster if tile.cluster > 1 else 0
        return state_bytes(tv) * tile.across * (places + sent)


def tiling(room: Room, parameters: KeptParameters) -> Tiling:
    """A line of each row, less where registers would not let two blocks on a multiprocessor, or
    where blocks would be few. Raises Rejected."""
    if (whole := whole_images(room, parameters)) is not None:
        return Tiling(whole, whole.blocks, renews=False)
    held, vector_bytes = room.held, room.vector_bytes
    room = room.having(max(held.once - SCRATCH, 0))
    dealt = min(held.dealt, WARP)  # threads whose sums meet are of a warp
    vectors = dealt or room.axes.vector.size
    line = vectors * vector_bytes if held.dealt else parameters.line
    if held.turned.tensors:  # so that a warp is at several rows of a strip
        line = min(line, PREFERRED.line)
    widths = list(_widths(vectors, vector_bytes, line))
    if held.dealt and held.dealt % widths[0]:
        raise Rejected("columns dealt to blocks in other numbers than they have threads")
    possible = list(_possible(room, widths, parameters))
    if not possible or possible[0].across * vector_bytes < 2 * SECTOR:
        shared = _shared(room, widths, parameters)
        if shared is not None:
            return _told(room, shared, parameters)
    if not possible:
        raise Rejected("columns that are too long to be kept")
    best, enough = possible[0], room.enough
    while ceil_div(vectors, best.across) < enough and best.across > widths[-1]:
        best = Tile(best.across // 2, best.down)
    is_turned = bool(held.turned.tensors)
    while (larger := _larger(best, room.column, vectors, enough, is_turned)) is not None:
        if not room.blocks(larger):
            break
        best = larger
    return _told(room, best, parameters)


def _told(room: Room, tile: Tile, parameters: KeptParameters) -> Tiling:
    """A tile, and what the compiler is told of it."""
    told, lanes, vector_bytes = max(parameters.blocks, 2), room.axes.lanes, room.vector_bytes
    is_tight = room.column.shared_by(tile.cluster).registers(tile.down) >= RENEWED
    are_halves = lanes > 1 and vector_bytes == 2 * lanes  # in registers, two in one
    is_odd = isinstance(room.axes, OddAxes)
    are_several = room.held.kept * REGISTER_BYTES > vector_bytes
    renews = are_halves and ((is_tight and bool(room.held.dealt)) or (is_odd and are_several))
    fit, walking = room.blocks(tile), ceil_div(room.held.groups, room.target.multiprocessors)
    if tile.cluster == 1 and told < walking <= fit:  # else some would walk behind all others
        return Tiling(tile, walking, renews)
    return Tiling(tile, told if fit == told else None, renews)


def _shared(room: Room, widths: Sequence[int], parameters: KeptParameters) -> Tile | None:
    """Two sectors at least of rows that the blocks of a cluster share, if two of them fit on a
    multiprocessor. Of a sector alone the memory would be asked twice. None where no cluster has
    room, or blocks would be few. Single elements of so many rows were as fast in narrow tiles."""
    held, vectors = room.held, room.axes.vector.size
    if not (parameters.shares and room.may_share) or held.turned.tensors:
        return None
    if room.axes.lanes == 1 and not held.dealt:
        return None

    def fit(across: int, down: int, cluster: int) -> bool:
        is_enough = ceil_div(vectors, across) * cluster >= room.enough
        return is_enough and room.blocks(Tile(across, down, cluster)) >= parameters.blocks

    wide = [a for a in widths if a * room.vector_bytes >= 2 * SECTOR]
    sizes = clusters_up_to(room.target.max_cluster)
    found = sharing(room.column, wide, sizes, fit, parameters.held)
    return None if found is None else Tile(*found)


def odd_tiling(room: Room, axes: OddAxes, parameters: KeptParameters) -> Tiling | None:
    """Of a warp for each row, as few blocks as have room for all rows; None where none do, or
    blocks would be few."""
    held, tiles = room.held, axes.image.size * axes.tiles
    room = room.having(held.once)
    column = room.column
    most = room.target.max_cluster if room.may_share else 1
    for least in (parameters.blocks, 1) if held.dealt else (parameters.blocks,):

        def fit(across: int, down: int, cluster: int, least: int = least) -> bool:
            return room.blocks(Tile(across, down, cluster)) >= least

        found = odd_sharing(column, axes.lanes, most, fit, parameters.held)
        if found is not None and tiles * found[-1] >= room.enough:
            return _told(room, Tile(*found), parameters)
    return None


def tall_tiling(room: Room) -> Tiling | None:
    """As few threads down as have registers for their rows, and a warp across at most, whose sums
    over columns shuffles bring together. None where no such tile has room."""
    held, column = room.held, room.column
    if held.is_stored:
        return _tall_stored(room)
    across = gcd(held.dealt, column.tall_across())
    if across * room.vector_bytes < 2 * SECTOR and held.dealt:
        across = held.dealt  # whole sectors, whose sums meet in shared memory
    tile = Tile(across, column.tall_threads())
    if across * room.vector_bytes < SECTOR or not room.blocks(tile):
        return None
    return Tiling(tile, column.tall_blocks() or None, renews=False)


def _tall_stored(room: Room) -> Tiling | None:
    """Of rows that are stored, with registers for what phases leave, as many as the compiler takes,
    or as let two blocks be on a multiprocessor. It is told how many are, where they are of several
    warps: one that nobody waits for has what it takes."""
    left = room.held.left * room.axes.lanes
    column = replace(room.column, beside=room.column.beside + left)
    for most in (TALL_STORED, TALL):
        tile = Tile(column.tall_across(most), column.tall_threads(most))
        fit = REGISTERS // (column.registers(tile.down) * tile.threads)
        if fit > 1 and tile.threads <= MAX_THREADS and room.blocks(tile):
            return Tiling(tile, fit if tile.down > 1 else None, renews=False)
    return None


def met_tiling(room: Room) -> Tiling:
    """All columns of samples, which meet. Raises Rejected."""
    axes, held = room.axes, room.held
    down_columns = [tv for phase in room.phases if phase.met is None for tv, _ in phase.reductions]
    states = sum(map(state_bytes, down_columns)) * (axes.lanes + 1)
    vectors, width = held.met or 1, axes.lanes * narrowest(room.segment, down_columns)
    most = room.target.max_cluster
    found = met_columns_held(room.column, vectors, width, states, most)
    if found is None or held.turned.tensors:
        raise Rejected("columns that meet, of which no cluster has room for a sample")
    tile = Tile(found.across, found.down, abreast=found.blocks)
    told = 2 if room.blocks(tile) > 1 else 1  # told of three the compiler spilled
    are_halves = axes.lanes > 1 and width == 2 * axes.lanes
    return Tiling(tile, told, renews=are_halves)


def whole_images(room: Room, parameters: KeptParameters) -> Tile | None:
    """All places of images whose rows are short and no whole lines, in as few blocks each as leave
    room for another one on the multiprocessor, or for one that has sums beside; None for others,
    for small images, for so few that most of the machine would be idle, and for vectors of which
    nothing is stored: a line of them is read as fast by smaller blocks."""
    axes, held, target = room.axes, room.held, room.target
    vectors = held.image
    if vectors is None or not parameters.images:
        return None
    if not are_kept_whole(vectors, vectors * room.vector_bytes):
        return None
    if held.dealt not in (0, vectors):
        return None
    if axes.lanes > 1 and not held.is_stored:
        return None
    if parameters.slots and (tile := _in_slots(room, vectors)) is not None:
        return tile
    if held.turned.tensors:
        return None
    images, enough = axes.vector.size // vectors, BLOCKS * target.multiprocessors
    for down, cluster in blocks_of_image(room.column, vectors, target.max_cluster):
        tile = Tile(vectors, down, cluster)
        if (cluster == 1 or room.may_share) and room.blocks(tile) >= (1 if held.dealt else 2):
            return tile if images * cluster >= enough else None
    return None


def _in_slots(room: Room, vectors: int) -> Tile | None:
    """All places of images that pass through shared memory."""
    needs, target = room.held.slots, room.target
    if needs is None or not target.copies_stretches:
        return None
    along, beside = (sum(map(state_bytes, tvs)) for tvs in (room.reductions, room.held.sums))
    rows, lanes = room.axes.row.size, room.axes.lanes
    of_each, turned = (needs.of_row, needs.of_place), (needs.turned, needs.turns_out)
    planes = ImagePlanes(rows, vectors, lanes, needs.itemsizes, along, beside, *of_each, *turned)
    found, images = planes.slots(target), room.axes.vector.size // vectors
    if found is None or (not beside and images < found.blocks * target.multiprocessors):
        return None
    down = planes.down(found.threads)
    idle = found.threads - down * vectors
    told = 1 if found.blocks == 1 else None
    return Tile(vectors, down, slots=found.slots, idle=idle, blocks=told)


def _possible(room: Room, widths: Sequence[int], parameters: KeptParameters) -> Iterator[Tile]:
    """Tiles for which there is room, what is preferred first. Blocks that walk are at other columns
    while the rest of a narrow row is in the cache: they take a line, alone on a multiprocessor if
    they must be, or two sectors. A line of single floats of odd rows, which begins anywhere in
    another, is taken by a block alone, too. Threads that store nothing of the plane keep more, and
    meet fewer."""
    limits, fewest, vector_bytes = [2 * parameters.held], (parameters.blocks, 1), room.vector_bytes
    if room.held.is_stored:
        limits.insert(0, parameters.held)
    is_straight = room.held.dealt > 0 and not room.held.turned.tensors
    lines = [a for a in widths[:1] if a * vector_bytes >= LINE and is_straight]
    wide = [a for a in widths if a * vector_bytes >= 2 * SECTOR] if room.held.dealt else widths
    is_single = room.axes.lanes == 1 and vector_bytes >= REGISTER_BYTES
    single = widths[:1] if is_single and not room.held.dealt else []
    for some, counts in ((lines, (1,)), (single, fewest), (wide, fewest), (widths, fewest)):
        tiles = [Tile(a, room.column.threads(limit)) for limit in limits for a in some]
        if some is lines:
            tiles = [tile for tile in tiles if tile.threads <= ALONE]
        for least in counts:
            yield from (tile for tile in tiles if room.blocks(tile) >= least)


def _larger(
    tile: Tile, column: KeptRows, vectors: int, enough: int, is_turned: bool
) -> Tile | None:
    """A tile of a block with twice as many threads, if it has few: wider where blocks are `enough`
    then and no warp has to be at several rows of a strip; else deeper, so that blocks end sooner
    where they are few, or if threads keep much."""
    wider, deeper = Tile(tile.across * 2, tile.down), Tile(tile.across, tile.down * 2)
    may_deepen = deeper.down <= column.rows
    if tile.threads >= THREADS:
        return None
    if 0 < enough <= ceil_div(vectors, wider.across) and not (is_turned and may_deepen):
        return wider
    if may_deepen and ceil_div(vectors, tile.across) < enough:
        return deeper
    return deeper if column.may_deepen(tile.across, tile.down, is_turned) else None


def _widths(vectors: int, vector_bytes: int, line: int) -> Iterator[int]:
    """Threads along a row that a block may have, from a `line` of bytes down to a sector."""
    across = 1
    while across * vector_bytes < line and across < vectors:
        across *= 2
    yield across
    while across // 2 * vector_bytes >= SECTOR:
        across //= 2
        yield across
