"""Where a row is while the phases of the row template walk it: registers, shared memory, neither.

    softmax, 4096 columns         in 16 registers of 128 threads
    16384                         in 32 registers of 256 threads, two rows on a multiprocessor
    65536                         in the shared memory of a cluster of 2 blocks of 512 threads
    1048576                       of one of 16, on a GPU that has so large ones
    its gradient, 65536           one operand there, one in registers

What is in neither is read again by every phase. A block whose row fills a multiprocessor leaves the
memory idle while it computes: a long row is shared by a cluster of blocks, with blocks of other
rows beside them. Where rows are while a block walks them, `walking.py` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.layout import registers_of
from thunder_fuser.analysis.short_rows import in_warps
from thunder_fuser.analysis.walked_rows import clusters_of
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.parameters import RowParameters
from thunder_fuser.target import MAX_REGISTERS, MAX_THREADS, REGISTERS, WARP, Target

MIN_BLOCK = 128  # threads of a block, at least
THREADS_AGAIN = 512  # of a row that every phase reads again: several are on a multiprocessor
HELD = 32  # elements of a row that one thread holds; twice as many in long rows
EDGED = 24  # registers of one that is only read and has ends beside its vectors
FEW = 8192  # elements up to which a row is not long
FEW_ROWS = 4  # multiprocessors to a row, from which on it has all the threads that it can
HELD_OF_SHORT = 8  # of a short one that is stored: threads side by side fill lines with vectors
SHORT = 128  # elements up to which a row is short
PIECE = 32  # elements of neighbouring threads, that still fill sectors where each has more vectors
MIN_CLUSTERED = 32768  # elements of a row, from which on a cluster has it where rows are few
SCRATCH = 32  # registers that a thread needs beside its row
SCRATCH_WITH_WEIGHTS = 64  # the vectors of several tensors at a time, as f32
TOLD = 48  # registers that the compiler may take where rows are shifted: a vector of weights is put
# together of two, and left to itself, with 32, it waits for those of one tensor after the other
BESIDE_LEFT = (
    24  # registers beside those of what phases leave: more blocks hide what each waits for
)
AHEAD = 64  # registers of a thread from which on it loads weights ahead; with 40 it spilled them
RESERVED_BYTES = 8 * 1024  # of shared memory, for partial sums and what the driver takes
BLOCK_BYTES = 2 * 1024  # of shared memory, that a block takes beside its part of a row
MANY_WEIGHTS = 16  # registers of a vector's weights beside a row that is shifted, each put together
# of two: of those of seven vectors the compiler loaded so many at once that a thread had 250
HELD_IN_CLUSTER = 8  # vectors of a row that one thread of a cluster holds
MIN_IN_TURN = 2  # below it a cluster is no better than a block
IN_TURN = 3  # blocks of different rows: while some compute, others load and store
PREFERRED = RowParameters()


@dataclass(frozen=True)
class Residency:
    """`threads` of each of `cluster` blocks share a row. Of what they read of it, `registers` and
    `shared` name the tensors that stay on the multiprocessor, the latter in one of `slots` in
    shared memory; what is in both comes to shared memory first. `weights` of all rows are in
    registers too, of a block that walks rows, or are `stowed` in shared memory, where all that its
    rows have one of is `gathered`, or `brought` by each row. `blocks` are to fit on a
    multiprocessor, None for as many as do. Rows that are walked side by side come to registers in a
    `batch` of turns, and those of a warp are so far `apart`."""

    threads: int
    registers: frozenset[TensorView] = frozenset()
    shared: frozenset[TensorView] = frozenset()
    slots: int = 0
    blocks: int | None = None
    cluster: int = 1
    weights: bool = False
    stowed: bool = False
    batch: int = 1
    gathered: frozenset[TensorView] = frozenset()
    brought: frozenset[TensorView] = frozenset()
    apart: int = 1

    @property
    def has_room_ahead(self) -> bool:
        """True where so many blocks leave registers for weights of the next vector."""
        return self.blocks is not None and AHEAD * self.threads * self.blocks <= REGISTERS


@dataclass(frozen=True)
class Row:
    """One of `count` rows of `vectors`, and the registers that one vector fills: of each tensor
    read, of the `weights` that all rows share, and of what scans leave. The template `walks` it so
    many times, and reads what it needs `again` in more than one of them; what follows may be stored
    as whole rows. What it sums `is_sent` from block to block, a word or two for each: `states` are
    bytes of all that, and `left` the registers of a vector of what phases leave for each other, if
    threads have few. One that `is_shifted` begins at another lane than the weights. Its sums wait
    for so many bytes of each tensor that has one value a row, `waited`, and what follows from them
    for those of each that is `late`. Beside it so many values are `counted` in shared memory, and
    threads meet so many times in it."""

    vectors: int
    lanes: int
    loads: Mapping[TensorView, int]
    scanned: int = 0
    walks: int = 2
    is_stored: bool = False
    again: frozenset[TensorView] = frozenset()
    weights: int = 0
    is_sent: bool = True
    is_shifted: bool = False
    states: int = 0
    count: int = 1 << 20  # enough for any machine
    left: int = 0
    waited: Mapping[TensorView, int] = field(default_factory=dict)
    late: Mapping[TensorView, int] = field(default_factory=dict)
    counted: int = 0
    meets: int = 1

    @property
    def loaded(self) -> int:
        return sum(self.loads.values())

    @property
    def most(self) -> int:
        """Vectors of a thread of a cluster, at most."""
        return min(max(HELD // self.left, 1), HELD_IN_CLUSTER) if self.left else HELD_IN_CLUSTER

    @property
    def by_width(self) -> list[TensorView]:
        """What is read, the widest vectors first."""
        return sorted(self.loads, key=lambda tv: -self.loads[tv])


def scanned_registers(scans: Sequence[TensorView], lanes: int) -> int:
    """The registers of a vector that is scanned: its elements, and the sums before it and of it."""
    return registers_of(tv.dtype.compute_type.itemsize for tv in scans) * (lanes + 2)


def of_rows(row: Row, target: Target, parameters: RowParameters = PREFERRED) -> Residency | None:
    """In one block where that leaves room for another one on the multiprocessor; else in a cluster
    of them, if more than one fits then. None for a row whose scans no registers hold."""
    if not (parameters.keeps or row.scanned or row.vectors * row.lanes <= FEW):
        return _again(row)
    plain, is_long = replace(row, left=0), row.vectors * row.lanes > FEW
    found = _of_held(row, target, parameters) if row.left and is_long else None
    return found or _of_held(plain, target, parameters)


def _of_held(row: Row, target: Target, parameters: RowParameters) -> Residency | None:
    """None for a row whose scans no registers hold, and where too few threads would have room for
    what phases leave for each other."""
    alone = _in_one_block(row, target, parameters.held)
    is_single = row.scanned or row.walks < 2 or not row.loads or not row.is_sent
    if alone is None or is_single:
        return alone
    if _leaves_room(alone, row) and not _leaves_idle(row, target):
        return alone
    is_held, wanted = bool(alone.registers or alone.shared), parameters.cluster
    least = IN_TURN if row.left else MIN_IN_TURN if is_held else 1
    for sizes in clusters_of(target.max_cluster, row.is_sent):
        allowed = [size for size in sizes if wanted in (None, size)]
        if (found := _in_cluster(row, allowed, target, least)) is not None:
            return found
    return None if row.left else alone


def held_of_edged(row: Row) -> int | None:
    """Elements of a thread of a shifted row, if they are more than of others: of one that is only
    read, where a warp has it and few registers hold them. An element of the ends is each thread's,
    and so is what a row costs whatever its length."""
    vectors = EDGED // row.loaded
    is_more = not row.is_stored and row.vectors <= vectors * WARP and vectors * row.lanes > HELD
    return vectors * row.lanes if is_more else None


def _again(row: Row) -> Residency:
    """Every phase reads the row from the cache."""
    return Residency(min(in_warps(ceil_div(row.vectors * row.lanes, 2 * HELD)), THREADS_AGAIN))


def _leaves_room(alone: Residency, row: Row) -> bool:
    """True for a row in registers beside those of as many threads again."""
    registers = ceil_div(row.vectors, alone.threads) * (row.loaded + row.left) + SCRATCH
    return bool(alone.registers) and 2 * registers * alone.threads <= REGISTERS


def _leaves_idle(row: Row, target: Target) -> bool:
    """True for rows of which a block each would leave multiprocessors idle, and a cluster each is
    worth its barriers. Of rows that are only summed blocks have a piece each, from
    `analysis.reductions.MIN_SHARED` elements on: nothing of those stays on a multiprocessor."""
    return row.count < target.multiprocessors and row.vectors * row.lanes >= MIN_CLUSTERED


def _in_cluster(row: Row, sizes: Sequence[int], target: Target, least: int) -> Residency | None:
    """The fewest blocks a row that let IN_TURN of them fit on a multiprocessor, and give each one a
    block; else those of which most fit, None for fewer than `least`."""
    found = [_in_blocks(row, size, target) for size in sizes]
    enough = [residency for fitting, residency in found if fitting >= IN_TURN]
    if enough:
        busy = (r for r in enough if r and r.cluster * row.count >= target.multiprocessors)
        return next(busy, enough[-1])
    fitting, residency = max(found, key=lambda pair: pair[0], default=(0, None))
    return residency if fitting >= least else None


def _in_blocks(row: Row, cluster: int, target: Target) -> tuple[int, Residency | None]:
    """A row in the registers and the shared memory of `cluster` blocks, divided so that most blocks
    fit on a multiprocessor, and how many; where it is the same, with more in shared memory, which
    does not spill."""
    piece = ceil_div(row.vectors, cluster)
    threads = min(max(in_warps(ceil_div(piece, row.most)), MIN_BLOCK), MAX_THREADS)
    held = ceil_div(piece, threads)
    best: tuple[int, Residency | None] = 0, None
    for count in range(len(row.loads) + 1):
        registers = frozenset(row.by_width[:count])
        shared = frozenset(row.by_width[count:])
        fitting = _fitting(row, registers, threads, held, target)
        if fitting > best[0]:
            told = 1 if fitting == 1 else _told(row, registers, threads, held, target)
            slots = 1 if shared else 0
            best = fitting, Residency(threads, registers, shared, slots, told, cluster)
    return best


def _told(
    row: Row, registers: Set[TensorView], threads: int, held: int, target: Target
) -> int | None:
    """Blocks of which the compiler is told that they fit on a multiprocessor, so that it takes as
    many registers as that leaves: no more than have room there for their rows in shared memory.
    None to leave it to itself, as where it would spill what is stored, too."""
    if row.is_shifted and registers and not row.is_stored:
        return IN_TURN  # by itself it loads what vectors have beside the row all at once
    if registers or not (row.is_shifted and row.weights):
        return None
    fitting = _with_room(4 * held * threads * row.loaded, target)
    told = BESIDE_LEFT if row.left else TOLD
    return min(REGISTERS // ((told + held * row.left) * threads), fitting) or None


def _with_room(moved: int, target: Target) -> int:
    """Blocks for whose bytes of a row the shared memory of a multiprocessor has room."""
    return target.shared_bytes // (moved + BLOCK_BYTES)


def _fitting(row: Row, registers: Set[TensorView], threads: int, held: int, target: Target) -> int:
    """Blocks on a multiprocessor whose threads hold `held` vectors of each tensor."""
    kept = held * (row.left + sum(row.loads[tv] for tv in registers))
    kept += BESIDE_LEFT if row.left else SCRATCH_WITH_WEIGHTS if row.weights else SCRATCH
    if kept > MAX_REGISTERS - SCRATCH:
        return 0
    moved = 4 * held * threads * (row.loaded - sum(row.loads[tv] for tv in registers))
    return min(
        REGISTERS // (kept * threads),
        _with_room(moved, target),
        target.threads_per_multiprocessor // threads,
    )


def _in_one_block(row: Row, target: Target, wanted: int | None) -> Residency | None:
    """In registers where they hold it; else, if shared memory holds the rest, in both. None for a
    row whose scans no registers hold."""
    held = _preferred(row, target) if wanted is None else max(wanted // row.lanes, 1)
    while True:
        threads = min(in_warps(ceil_div(row.vectors, held)), MAX_THREADS)
        registers = ceil_div(row.vectors, threads) * (row.loaded + row.scanned + row.left) + SCRATCH
        if (
            registers * max(threads, MIN_BLOCK) <= REGISTERS
            and registers <= MAX_REGISTERS - SCRATCH
        ):
            return Residency(threads, registers=frozenset(row.loads))
        if not row.scanned:
            return _in_both(row, target) or Residency(threads)
        if held == 1:
            return None
        held //= 2  # it cannot be read again, but by more threads


def _preferred(row: Row, target: Target) -> int:
    """Vectors of a row that one thread holds. Of a short one that is stored as few as may be, or
    more if that leaves fewer threads without one: of 12 vectors four threads have three each, where
    of sixteen a quarter would do nothing for what the others compute. Of rows that leave most of
    the machine idle, as what pieces of a few long ones came to, one: no other block hides how long
    a thread computes."""
    elements = row.vectors * row.lanes
    if not row.is_stored and elements <= FEW and FEW_ROWS * row.count <= target.multiprocessors:
        return 1
    most = max((HELD if elements <= FEW or row.left else 2 * HELD) // row.lanes, 1)
    if row.is_shifted and row.weights >= MANY_WEIGHTS:
        return max(HELD // 2 // row.lanes, 1)
    if not row.is_stored or row.lanes == 1 or elements > SHORT:
        return most
    least = max(HELD_OF_SHORT // row.lanes, 1)
    threads = {held: in_warps(ceil_div(row.vectors, held)) for held in range(least, most + 1)}
    allowed = [held for held, t in threads.items() if held == least or t * row.lanes >= PIECE]
    return min(allowed, key=lambda held: threads[held] * ceil_div(row.vectors, threads[held]))


def _in_both(row: Row, target: Target) -> Residency | None:
    """One block on a multiprocessor: what its registers do not hold is in shared memory."""
    places = ceil_div(row.vectors, MAX_THREADS)
    free = REGISTERS // MAX_THREADS - SCRATCH
    registers: set[TensorView] = set()
    for tv in row.by_width:
        if places * row.loads[tv] <= free:
            free -= places * row.loads[tv]
            registers.add(tv)
    shared = row.loads.keys() - registers
    moved = 4 * MAX_THREADS * places * sum(row.loads[tv] for tv in shared)
    if moved > target.shared_bytes - RESERVED_BYTES:
        return None
    return Residency(MAX_THREADS, frozenset(registers), frozenset(shared), slots=1, blocks=1)
