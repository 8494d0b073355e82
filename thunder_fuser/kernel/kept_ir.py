"""The kernel of the kept column template.

kept column kernel 512 blocks of 2 x 64 threads
  rows 256 vectors 1024 lanes 4
  v0 = load T0[4096*row + 4*vector], 4 x f32, 16 bytes at a time
  phase 0
    T0_0: f32 = v0[k][1*lane + 0]
    T1_part[lane] sum= T0_0
    T1_row = sum(T1_part)
  per row
    T0_1: f32 = v0[k][1*lane + 0]
    T3_0: f32 = sub(T0_1, T1_row[lane])
    w0[1*lane + 0] = T3_0
    store w0 -> T3[4096*row + 4*vector], 4 x f32, 16 bytes at a time
"""

from __future__ import annotations

from dataclasses import dataclass

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.kept_rows import is_part_of_warp, parts_of_columns
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.kernel.image_ir import Images
from thunder_fuser.kernel.scopes import Accumulator, Held, Pairs, Scope, print_scope
from thunder_fuser.kernel.signature import Pointer, ScalarParameter
from thunder_fuser.kernel.statements import VectorAccess, print_access
from thunder_fuser.schedule.column_axes import ColumnAxes
from thunder_fuser.schedule.odd_columns import OddAxes
from thunder_fuser.schedule.strips import Strip
from thunder_fuser.target import WARP

NOTHING = Scope((), ())


def own(name: str) -> str:
    """The variable of a sum or a load in a thread with one column of it."""
    return f"{name}_own"


@dataclass(frozen=True)
class KeptSum(Accumulator):
    """A sum that is known behind its phase, `rounded` as the trace does: to what is done for a
    vector of columns `by_lane`, as the array `name_row` of one value each, to what is done for one
    column as that of it, `name_own`."""

    rounded: DataType | None = None
    by_lane: bool = True
    by_column: bool = False

    @property
    def results(self) -> tuple[str, ...]:
        """The names of what is known."""
        row = (f"{self.name}_row",) if self.by_lane else ()
        return (*row, own(self.name)) if self.by_column else row


@dataclass(frozen=True)
class KeptPhase:
    """`scope` adds a row to the `sums`, which all threads of a column know then. What it takes in
    `pairs` the scope has too. Where columns `meet` it adds the columns of a vector, and all threads
    of a sample know the sums. Of each element it leaves what is `held` for scopes behind."""

    scope: Scope
    sums: tuple[KeptSum, ...]
    pairs: tuple[Pairs, ...] = ()
    meet: bool = False
    held: tuple[Held, ...] = ()


@dataclass(frozen=True)
class RowValues:
    """What rows have one of, in `arrays` of shared memory: those of all rows for each of the
    `samples`, of so many `vectors`, of which a block has columns."""

    scope: Scope
    arrays: tuple[Held, ...]
    samples: int
    vectors: int


@dataclass(frozen=True)
class KeptKernel:
    """One launch. `kept` fill an array of registers with one element per row of a thread, `once`
    are loads that do not depend on the row. All threads of a column know the results of a phase in
    the next one; `full` is done for every row behind all phases, `final` once per vector of
    columns. `blocks_at_once` are to fit on a multiprocessor, None for as many as do. What is turned
    `fills` a `strip` of its name each before the phases, or `empties` one behind them. With a
    `group` each block walks columns, so many `tiles` of neighbours at a time, those of a sample by
    turns with so many `parts` of it, while `full` adds to
    the sums `beside`, one per row of a thread; `results` are stored behind the last turn. Where it
    `renews` what is kept, each phase converts that anew. The blocks of a `cluster` have an equal
    part of the rows of a tile each. Where columns are `spread`, `final` is of one of them, in each
    of as many threads down as a vector has lanes, whose loads are made before the phases. Where
    columns meet, those of a sample are of the blocks of a cluster that are `abreast`, and `samples`
    is done once for it. What rows have one of is left `at_rows` before the phases."""

    pointers: tuple[Pointer, ...]
    scalars: tuple[ScalarParameter, ...]
    axes: ColumnAxes
    threads_across: int
    threads_down: int
    kept: tuple[VectorAccess, ...]
    once: tuple[VectorAccess, ...]
    phases: tuple[KeptPhase, ...]
    full: Scope
    final: Scope
    blocks_at_once: int | None = None
    strip: Strip | None = None
    fills: tuple[VectorAccess, ...] = ()
    empties: tuple[VectorAccess, ...] = ()
    group: IterDomain | None = None
    parts: int = 1
    tiles: int = 1
    beside: tuple[Accumulator, ...] = ()
    results: Scope = NOTHING
    renews: bool = False
    cluster: int = 1
    images: Images | None = None
    is_spread: bool = False
    abreast: int = 1
    samples: Scope = NOTHING
    at_rows: RowValues | None = None

    @property
    def samples_meet(self) -> bool:
        """True where the columns of each sample do."""
        return any(phase.meet for phase in self.phases)

    @property
    def together(self) -> int:
        """Blocks that run at the same time."""
        return self.cluster * self.abreast

    @property
    def threads(self) -> int:
        idle = 0 if self.images is None else self.images.idle
        return self.threads_across * self.threads_down + idle

    @property
    def blocks(self) -> int:
        if self.group is not None:
            return self.group.size * self.cluster
        return ceil_div(self.axes.vector.size, self.threads_across) * self.cluster

    @property
    def odd(self) -> OddAxes | None:
        """Axes of vectors that lag behind their columns."""
        return self.axes if isinstance(self.axes, OddAxes) else None

    @property
    def turns(self) -> int:
        """Tiles of columns that a block has, some of which may be none in the last run of them."""
        if self.group is None:
            return 1
        at_once = self.group.size * self.tiles * self.threads_across
        return ceil_div(self.axes.vector.size, at_once) * self.tiles

    @property
    def walks(self) -> bool:
        """True where a block has several tiles, or none in its only turn."""
        return self.turns > 1 or (self.group is not None and self.is_uneven)

    @property
    def is_cut(self) -> bool:
        """True where a tile has threads without columns."""
        return self.axes.vector.size % self.threads_across > 0

    @property
    def is_uneven(self) -> bool:
        """True where blocks have none in their last turn."""
        tiles = ceil_div(self.axes.vector.size, self.threads_across)
        return self.blocks // self.cluster * self.turns != tiles

    @property
    def rows_per_thread(self) -> int:
        return ceil_div(self.rows_per_block, self.threads_down)

    @property
    def rows_per_block(self) -> int:
        return ceil_div(self.axes.row.size, self.cluster)

    @property
    def meets_in_shared(self) -> bool:
        """True where sums over columns are met by threads that are no part of a warp."""
        return bool(self.beside) and not is_part_of_warp(self.threads_across)

    @property
    def padding(self) -> int:
        """Places behind the columns of each part of a sum, so that the threads of a warp, which
        have several parts where they are few across, meet all banks."""
        return self.threads_across if self.axes.lanes > 1 and self.threads_across < WARP else 0

    def warp_parts(self, total: Accumulator) -> int | None:
        """Of each column of a sum, where the threads of a warp combine theirs in registers."""
        return parts_of_columns(self.threads_across, self.threads_down, total.op.state_size)

    @property
    def shared_bytes(self) -> int:
        """Of the strips, and of the sums over columns that meet there; or of slots."""
        if self.images is not None:
            return sum(self.images.bytes_of_slots.values())
        strips = sum(self.bytes_of(access) for access in (*self.fills, *self.empties))
        return strips + sum(self.met_bytes(total) for total in self.beside)

    def met_bytes(self, total: Accumulator) -> int:
        """Of a sum over columns of every thread, for each of its rows."""
        held = self.rows_per_thread * self.threads * total.dtype.itemsize
        return ceil_div(held, MAX_ALIGNMENT) * MAX_ALIGNMENT if self.meets_in_shared else 0

    def bytes_of(self, access: VectorAccess) -> int:
        """Of the strip of an access."""
        return 0 if self.strip is None else self.strip.bytes_of(access.dtype)

    @property
    def names(self) -> dict[IterDomain, str]:
        group = {} if self.group is None else {self.group: "group"}
        places = {} if self.images is None else {self.images.place: "place"}
        return self.axes.names | group | places | ({} if self.strip is None else self.strip.names)

    @property
    def reach(self) -> int:
        """The largest absolute value of an offset."""
        phases = (phase.scope for phase in self.phases)
        at_rows = () if self.at_rows is None else (self.at_rows.scope,)
        scopes = (*at_rows, *phases, self.full, self.final, self.results, self.samples)
        accesses = (*self.kept, *self.once, *self.fills, *self.empties)
        forms = [form for access in accesses for form in access.forms]
        forms += [form for scope in scopes for form in scope.forms]
        images = 0 if self.images is None else self.images.count * self.images.elements
        return max((images, *(form.reach for form in forms)))

    def __str__(self) -> str:
        names = self.names
        lines = [
            f"kept column kernel {self.blocks} blocks of "
            f"{self.threads_across} x {self.threads_down} threads"
            + (f", {self.cluster} share columns" if self.cluster > 1 else "")
            + (f", {self.abreast} share samples" if self.abreast > 1 else ""),
            f"  rows {self.axes.row.size} vectors {self.axes.vector.size} lanes {self.axes.lanes}",
        ]
        lines += [] if self.images is None else [str(self.images)]
        lines += [f"  {a.name} = load {print_access(a, names)}" for a in (*self.once, *self.kept)]
        lines += [f"  {a.name} = turn {print_access(a, names)}" for a in self.fills]
        if self.at_rows is not None:
            lines += ["  at rows", *print_scope(self.at_rows.scope, names)]
        for number, phase in enumerate(self.phases):
            lines += [f"  phase {number}", *print_scope(phase.scope, names)]
            known = [(name, s) for s in phase.sums for name in s.results]
            lines += [f"    {name} = {s.op.name}({s.name}_part)" for name, s in known]
        if self.images is not None and self.images.at_places.arrays:
            lines += ["  at places", *print_scope(self.images.at_places.scope, names)]
        turned = [f"  turn {a.name} -> {print_access(a, names)}" for a in self.empties]
        last = "a column a thread" if self.is_spread else "per column"
        scopes = {"per row": self.full, last: self.final, "per sample": self.samples}
        for title, scope in scopes.items():
            if scope.statements:
                lines += [f"  {title}", *print_scope(scope, names)]
        lines += turned
        if self.group is not None:
            lines += [f"  over {self.turns} turns of a group", *print_scope(self.results, names)]
        return "\n".join(lines)
