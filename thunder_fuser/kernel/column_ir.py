"""The kernel of the column template.

column kernel 512 blocks of 16 x 16 threads
  rows 4096 in 32 splits side by side, 4 at a time, vectors 256 lanes 4
  per row
    v0 = load T0[1024*row + 4*vector], 4 x f32, 16 bytes at a time, streaming
    T0_0: f32 = v0[1*lane + 0]
    T1_part[lane] sum= T0_0
  per column
    w0[1*lane + 0] = T1_row[lane]
    store w0 -> T1[4*vector], 4 x f32, 16 bytes at a time

Where the rows are split, `splits` blocks share a column, and the last one does what is done per
column.
"""

from __future__ import annotations

from dataclasses import dataclass

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.kernel.scopes import Accumulator, Scope, print_scope
from thunder_fuser.kernel.signature import Pointer, ScalarParameter
from thunder_fuser.kernel.statements import Variable, VectorAccess
from thunder_fuser.schedule.column_axes import ColumnAxes
from thunder_fuser.schedule.column_scans import WINDOW
from thunder_fuser.schedule.column_stretches import FEW_COLUMNS


@dataclass(frozen=True)
class Delay:
    """What a thread keeps of the last `rows` that it walked: an element a lane of each."""

    name: str
    dtype: DataType
    rows: int

    def values(self, lane: str) -> tuple[Variable, ...]:
        """Those of a lane, the last one first."""
        names = (f"{self.name}_ago[{k}][{lane}]" for k in range(self.rows))
        return tuple(Variable(name, self.dtype) for name in names)


@dataclass(frozen=True)
class Pieces:
    """What a warp reduces of its rows beside `top` and `total` of the columns: it stores what the
    piece `name` of each row comes to. The terms are the elements of `vector`, if that is named, of
    which maxima are taken in pairs."""

    name: str
    top: Accumulator
    total: Accumulator
    scope: Scope
    vector: str | None = None


@dataclass(frozen=True)
class Stretch:
    """What a block has of a dense tensor, which passes through shared memory as one run of it: a
    load, or a store that `is_stored`, in the room of the access that `place` names."""

    access: VectorAccess
    place: str
    is_stored: bool = False

    @property
    def lanes(self) -> int:
        """Elements of a vector of memory."""
        return MAX_ALIGNMENT // self.access.dtype.itemsize


@dataclass(frozen=True)
class ColumnKernel:
    """One launch. `loop` accumulates a row into `sums`; `final` is done once per vector of columns,
    where the sum `name` is the array `name_row` of one value per lane. A thread loads a `batch`
    of rows before it sums them. `scans` are what it has summed so far, from the last row to the
    first where they are reversed. `blocks_at_once` are to fit on a multiprocessor, None for as many
    as do. Of a plane that ends inside a vector of the last row, one thread does the `end`. With
    `delays` a thread walks rows that follow each other from the last one up, and of as many rows
    behind them does what is `behind`. What it has `prepared` is done before its rows. With what is
    done `ahead`, to add up its batch, it goes on from the rows of threads before it, the last ones
    in the blocks of another split. With `stretches` its threads side by side have whole rows, which
    lie one after another in memory; a thread takes a `run` of rows at once. With `pieces` a warp
    reduces what its lanes have of a batch of rows too."""

    pointers: tuple[Pointer, ...]
    scalars: tuple[ScalarParameter, ...]
    axes: ColumnAxes
    threads_across: int
    threads_down: int
    splits: int
    batch: int
    loop: Scope
    sums: tuple[Accumulator, ...]
    final: Scope
    scans: tuple[Accumulator, ...] = ()
    is_reversed: bool = False
    blocks_at_once: int | None = None
    end: Scope | None = None
    behind: Scope | None = None
    delays: tuple[Delay, ...] = ()
    prepared: Scope | None = None
    ahead: Scope | None = None
    stretches: tuple[Stretch, ...] = ()
    run: int = 1
    pieces: Pieces | None = None

    @property
    def window(self) -> int:
        """Blocks before one that it asks, which has a thread for each: of few columns each leaves
        little."""
        return self.threads if self.row_width <= FEW_COLUMNS else WINDOW

    @property
    def row_width(self) -> int:
        """Elements of a row that a block has."""
        return self.threads_across * self.axes.lanes

    @property
    def rows_per_block(self) -> int:
        """Of threads that go on from each other's rows."""
        return self.threads_down * self.batch

    def stretch_bytes(self, stretch: Stretch) -> int:
        """Of the vectors that a block's rows lie in, wherever they begin."""
        elements = self.rows_per_block * self.row_width + stretch.lanes - 1
        return ceil_div(elements, stretch.lanes) * MAX_ALIGNMENT

    @property
    def rooms(self) -> dict[str, Stretch]:
        """A stretch of each place in shared memory."""
        return {stretch.place: stretch for stretch in reversed(self.stretches)}

    @property
    def shared_bytes(self) -> int:
        """Of the stretches."""
        return sum(map(self.stretch_bytes, self.rooms.values()))

    @property
    def carried(self) -> tuple[Accumulator, ...]:
        """What threads that go on from each other's rows have of these."""
        return (*self.scans, *self.sums)

    @property
    def threads(self) -> int:
        return self.threads_across * self.threads_down

    @property
    def tiles(self) -> int:
        """Blocks side by side along a row."""
        return ceil_div(self.axes.vector.size, self.threads_across)

    @property
    def blocks(self) -> int:
        return self.tiles * self.splits

    @property
    def rows_per_split(self) -> int:
        return ceil_div(self.axes.row.size, self.splits)

    @property
    def rows_per_thread(self) -> int:
        """Of a thread whose rows follow each other."""
        return ceil_div(self.rows_per_split, self.threads_down)

    @property
    def are_rows_dealt(self) -> bool:
        """True where blocks that share columns walk rows side by side, through one place of memory;
        those that store rows too have a stretch each, 1.5 % better for gelu's gradient, and so have
        those whose rows keep something for each other."""
        return self.splits > 1 and not (self.loop.stores or self.delays or self.scans)

    def warp_parts(self, total: Accumulator) -> int | None:
        """None: all threads of the block combine what each of them has."""
        return None

    @property
    def padding(self) -> int:
        """Places behind the columns of each part of a sum: the threads of a warp lie side by side
        and need none."""
        return 0

    @property
    def names(self) -> dict[IterDomain, str]:
        return self.axes.names

    @property
    def reach(self) -> int:
        """The largest absolute value of an offset."""
        scopes = (self.loop, self.final, self.end, self.behind, self.prepared, self.ahead)
        beside = () if self.pieces is None else (self.pieces.scope,)
        forms = (form for scope in (*scopes, *beside) if scope is not None for form in scope.forms)
        return max((form.reach for form in forms), default=0)

    def __str__(self) -> str:
        shape = f"{self.blocks} blocks of {self.threads_across} x {self.threads_down} threads"
        rows = f"{self.axes.row.size}" + (f" in {self.splits} splits" if self.splits > 1 else "")
        rows += " side by side" if self.are_rows_dealt else ""
        rows += f", {self.batch} at a time," if self.batch > 1 else ""
        rows += f", {self.rows_per_thread} of a thread from the last one up" if self.delays else ""
        rows += " through shared memory," if self.stretches else ""
        columns = f"rows {rows} vectors {self.axes.vector.size}"
        lines = [f"column kernel {shape}", f"  {columns} lanes {self.axes.lanes}"]
        if self.prepared is not None:
            lines += ["  before rows", *print_scope(self.prepared, self.names)]
        lines += ["  per row"]
        lines += print_scope(self.loop, self.names)
        if self.pieces is not None:
            lines += ["  per piece of a row", *print_scope(self.pieces.scope, self.names)]
        if self.ahead is not None:
            lines += ["  per row, ahead", *print_scope(self.ahead, self.names)]
        if self.end is not None:
            lines += ["  at the end of the plane", *print_scope(self.end, self.names)]
        if self.behind is not None:
            lines += ["  per row behind", *print_scope(self.behind, self.names)]
        return "\n".join([*lines, "  per column", *print_scope(self.final, self.names)])
