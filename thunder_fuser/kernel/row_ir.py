"""The kernel of the row template: phases over the vectors of a row, with reductions between them.

row kernel(T0: f32*, T3: f32*) 64 blocks of 1 rows of 128 threads
  rows 64 vectors 1024 lanes 4
  v0 = load T0[4096*group + 4*vector], 4 x f32, 16 bytes at a time
  phase 0
    T0_0: f32 = v0[k][1*lane + 0]
    T1_part sum= T0_0
    T1_row = sum(T1_part)
  final
    T0_1: f32 = v0[k][1*lane + 0]
    T3_0: f32 = sub(T0_1, T1_row)
    w0[1*lane + 0] = T3_0
    store w0 -> T3[4096*group + 4*vector], 4 x f32, 16 bytes at a time
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.kernel.scopes import (
    Accumulator,
    Held,
    Pairs,
    Scope,
    print_pairs,
    print_scope,
)
from thunder_fuser.kernel.signature import Pointer, ScalarParameter, print_parameters
from thunder_fuser.kernel.statements import (
    LaneStatement,
    Variable,
    VectorAccess,
    forms_of,
    print_access,
    print_statement,
)
from thunder_fuser.ops import OpDef
from thunder_fuser.schedule.row_axes import RowAxes
from thunder_fuser.target import WARP


@dataclass(frozen=True)
class Reduce:
    """The accumulators of the threads of a row combined into `result`, which all of them get."""

    accumulator: Variable
    result: Variable
    op: OpDef
    rounded: DataType | None  # the precision to which the trace rounds the result


@dataclass(frozen=True)
class Scan:
    """The elements of a row that its threads hold in the array `name`, each combined with all
    before it or, in `reverse`, behind it."""

    name: str
    dtype: DataType
    op: OpDef
    reverse: bool
    rounded: DataType | None  # the precision to which the trace rounds each element


@dataclass(frozen=True)
class Drawn:
    """A mask of places alone, `held` before the phases. The `scope` sets the BITS of a vector."""

    BITS: ClassVar[str] = "bits"
    held: Held
    scope: Scope


@dataclass(frozen=True)
class Risen:
    """What a phase accumulates as `most`, and the statements behind its vectors, which make of that
    what an accumulator takes."""

    most: Reduce
    statements: tuple[LaneStatement, ...]


@dataclass(frozen=True)
class ReducePhase:
    """What a thread's part of a row comes to, combined over its threads. Where so many rows of a
    block `met` in it, what each of them has one of is combined in the order of these rows. What it
    takes in `pairs` of whole vectors the scope has lane by lane, as the edges of a row do it. It is
    left out by warps that have none of what extrema of phases before have `chosen`."""

    scope: Scope
    reductions: tuple[Reduce, ...]
    scans: tuple[Scan, ...] = ()
    held: tuple[Held, ...] = ()
    met: int | None = None
    pairs: tuple[Pairs, ...] = ()
    risen: tuple[Risen, ...] = ()
    chosen: tuple[Reduce, ...] = ()


@dataclass(frozen=True)
class Unchosen:
    """What warps do behind the phases that have none of what these extrema have `chosen`."""

    scope: Scope
    chosen: tuple[Reduce, ...]


@dataclass(frozen=True)
class Tail:
    """What follows from all rows: the blocks that come last combine what each row left for each of
    `totals`, in the order of the rows, and the very last does `scope`."""

    totals: tuple[Reduce, ...]
    scope: Scope

    @staticmethod
    def left(total: Reduce) -> str:
        """The name of the array of what the rows leave, in the accumulator's type."""
        return f"{total.accumulator.name}_of_row"


@dataclass(frozen=True)
class Staged:
    """What a block moves of its rows as one stretch of vectors, through the array `name` in shared
    memory: so many elements `per_row` of a tensor of so many `elements`, which repeat over the rows
    of the plane. What is stored may go to several `pointers`."""

    access: VectorAccess
    elements: int
    per_row: int
    pointers: tuple[str, ...]

    @property
    def lanes(self) -> int:
        """Elements of a vector of the stretch."""
        return MAX_ALIGNMENT // self.access.dtype.itemsize

    @property
    def name(self) -> str:
        return f"{self.access.name}_rows"

    @property
    def slots_name(self) -> str:
        """Of the array of the stretches of several turns."""
        return f"{self.access.name}_slots"


@dataclass(frozen=True)
class RowKernel:
    """One launch: `rows_per_block` rows of `threads_per_row` threads in a block, or a part of each
    in every block of a `cluster` of several.

    `located` has the indices that tensors hold and a row's loads need, `once` are loads that do not
    depend on the vector; `kept` fill an array of registers with one element per vector of a thread,
    `slotted` one of `slots` in shared memory, from which those of them that are `kept` come to
    registers. `fixed` are kept for all rows of a block, `stowed` are so in shared memory, and
    `gathered` are there for each of its rows before it walks them; others each row has `brought`
    when its phases have met. What is `drawn` is so while the row is on its way. `single` is done by
    the first thread of a row, after the phases.

    With column `sums` a block walks the rows of a group, the next ones on their way to slots,
    accumulates in `final`, or does `unchosen`, and does `columns` at the end. `blocks_at_once` are
    to fit on a multiprocessor, None for as many as do. With `splits` so many blocks share a row, of
    one phase that stores too, and nothing is `final`; one after another or, where the parts are
    outermost, the first parts of all rows before the second. With a `chunk` a thread walks a row of
    one phase so many vectors at a time, and its scans go on from what they came to, all in one
    direction. With a `tail` the first thread of a row leaves what that combines.

    Where the axes have a `side`, a block has the rows of one group side by side, in turns, the
    loads of a `batch` of turns at a time, and those of a warp are so far `apart`; if the axes keep
    the sides each has `columns` of its own. The blocks of one that `is_reversed` have the last rows
    first. `staged` of the kept loads come through shared memory, stores go by what is `filled`
    there.
    """

    pointers: tuple[Pointer, ...]
    scalars: tuple[ScalarParameter, ...]
    axes: RowAxes
    threads_per_row: int
    rows_per_block: int
    blocks_at_once: int | None
    slots: int
    once: tuple[VectorAccess, ...]
    kept: tuple[VectorAccess, ...]
    slotted: tuple[VectorAccess, ...]
    fixed: tuple[VectorAccess, ...]
    stowed: tuple[VectorAccess, ...]
    phases: tuple[ReducePhase, ...]
    final: Scope
    single: Scope
    sums: tuple[Accumulator, ...]
    columns: Scope
    located: tuple[LaneStatement, ...] = ()
    cluster: int = 1
    splits: int = 1
    chunk: int = 0
    tail: Tail | None = None
    batch: int = 1
    are_parts_outermost: bool = False
    is_reversed: bool = False
    gathered: tuple[VectorAccess, ...] = ()
    brought: tuple[VectorAccess, ...] = ()
    staged: tuple[Staged, ...] = ()
    filled: tuple[Staged, ...] = ()
    apart: int = 1
    drawn: tuple[Drawn, ...] = ()
    unchosen: Unchosen | None = None

    @property
    def in_registers(self) -> tuple[Accumulator, ...]:
        """The column sums that a thread has there from the first row on."""
        return tuple(accumulator for accumulator in self.sums if not accumulator.is_count)

    @property
    def lane(self) -> IterDomain | None:
        return self.axes.lane

    @property
    def vector(self) -> IterDomain:
        return self.axes.vector

    @property
    def rows(self) -> int:
        return self.axes.rows

    @property
    def lanes(self) -> int:
        return self.axes.lanes

    @property
    def has_edges(self) -> bool:
        return self.axes.has_edges

    @property
    def threads(self) -> int:
        """Of a block, of whole warps where rows have parts of them."""
        threads = self.threads_per_row * self.rows_per_block // self.cluster
        return ceil_div(threads, WARP) * WARP if self.is_side_by_side else threads

    @property
    def threads_of_piece(self) -> int:
        """Of what a block has of a row."""
        return self.threads_per_row // self.cluster

    @property
    def has_idle(self) -> bool:
        """True where the last warp of rows side by side has threads without a row."""
        return self.is_side_by_side and self.threads_per_row * self.rows_per_block != self.threads

    @property
    def blocks(self) -> int:
        groups = 1 if self.is_side_by_side else self.rows_per_block  # of a block
        return ceil_div(self.axes.group.size, groups) * self.cluster * self.splits

    @property
    def vectors_per_split(self) -> int:
        """Of the part of a row that one block has, at most."""
        return ceil_div(self.axes.vectors, self.splits)

    @property
    def vectors_per_thread(self) -> int:
        return self.chunk or ceil_div(self.vectors_per_split, self.threads_per_row)

    @property
    def places_per_thread(self) -> int:
        """Of those vectors, and of the element beside them."""
        return self.vectors_per_thread + self.has_edges

    @property
    def shared_bytes(self) -> int:
        """Of the slots for rows and what lies beside them, or of what warps leave of a column sum
        when they meet."""
        moved = max(self.slots, 1) * sum(map(self.staged_bytes, self.staged))
        moved += sum(map(self.staged_bytes, self.filled))
        if self.is_side_by_side:
            met = 0 if self.axes.keeps_sides else max(map(self.sum_bytes, self.sums), default=0)
            return max(moved, self.threads // self.threads_that_meet * met)
        slots = sum(self.slots * self.row_bytes(access) for access in self.slotted)
        stowed = sum(map(self.row_bytes, self.stowed))
        once = sum(map(self.gathered_bytes, self.gathered))
        once += sum(map(self.brought_bytes, self.brought))
        return slots + stowed + once + moved

    @property
    def threads_that_meet(self) -> int:
        """Of those of rows side by side, whose column sums are left in one place: by a warp, whose
        rows meet first, or by the warps of one row."""
        return max(self.threads_per_row, WARP)

    @property
    def stretch_begins(self) -> int:
        """The elements of which a multiple lies before a block's stretches in memory, where those
        before its rows do not fill vectors: the stretches have some of these too. Else 1."""
        lanes = [s.lanes for s in (*self.staged, *self.filled) if s.per_row > 1]
        most = max(lanes, default=1)
        return most if self.rows_per_block * self.axes.columns % most else 1

    def staged_length(self, staged: Staged) -> int:
        """Elements of a stretch."""
        begins = self.stretch_begins
        return ceil_div(self.rows_per_block * staged.per_row + begins - 1, begins) * begins

    def staged_bytes(self, staged: Staged) -> int:
        """Of the rows of a block."""
        return self.staged_length(staged) * staged.access.dtype.itemsize

    def gathered_bytes(self, access: VectorAccess) -> int:
        """Of what a block has of all its rows."""
        return self.axes.turn.size * access.length * access.dtype.itemsize

    @property
    def places(self) -> int:
        """For what so many rows bring: of a turn that some threads are still in, of the next ones,
        and up to a power of two."""
        return int(1 << self.slots.bit_length())

    def brought_bytes(self, access: VectorAccess) -> int:
        """Of what the rows on their way bring."""
        return self.places * access.length * access.dtype.itemsize

    def sum_bytes(self, accumulator: Accumulator) -> int:
        """Of the column sums that the threads of a row hold."""
        held = self.vectors_per_thread * self.lanes * self.threads_per_row
        return held * accumulator.itemsize

    def row_bytes(self, access: VectorAccess) -> int:
        """Of what the threads of a block keep of a row."""
        held = self.vectors_per_thread * self.threads
        return held * access.length * access.dtype.itemsize

    @property
    def is_side_by_side(self) -> bool:
        """True where a block walks several rows of its group at once."""
        return self.axes.side is not None

    @property
    def renews(self) -> bool:
        """True where what is kept is converted anew behind each phase: beside sums the registers
        for several vectors of it are those of what phases leave, and the compiler spills."""
        leaves = self.drawn or any(phase.held for phase in self.phases)
        return bool(leaves and self.sums) and self.vectors_per_thread > 1

    @property
    def is_held(self) -> bool:
        """True where each thread has a place per vector of its part of the row."""
        held = (*self.kept, *self.slotted, *self.fixed, *self.sums)
        return bool(held) or any(phase.scans or phase.held for phase in self.phases)

    @property
    def names(self) -> dict[IterDomain, str]:
        return self.axes.names

    @property
    def reach(self) -> int:
        """The largest absolute value of an offset."""
        scopes = [*(d.scope for d in self.drawn), *(p.scope for p in self.phases)]
        scopes += [self.final, self.single, self.columns]
        scopes += [self.tail.scope] if self.tail is not None else []
        scopes += [self.unchosen.scope] if self.unchosen is not None else []
        held = (*self.kept, *self.slotted, *self.fixed, *self.stowed)
        held += (*self.gathered, *self.brought)
        staged = (s.access for s in self.staged)
        forms = [f for a in (*self.once, *held, *staged) for f in a.forms]
        forms += [f for s in self.located for f in forms_of(s)]
        forms += [f for scope in scopes for f in scope.forms]
        return max((form.reach for form in forms), default=0)

    def __str__(self) -> str:
        return print_row_kernel(self)


def print_row_kernel(kernel: RowKernel) -> str:
    names = kernel.names
    shape = f"{kernel.blocks} blocks of {kernel.rows_per_block} rows of {kernel.threads_per_row}"
    if kernel.cluster > 1:
        shape = f"{kernel.blocks} blocks, {kernel.cluster} to a row, of {kernel.threads}"
        shape += f" for {kernel.rows_per_block} rows" if kernel.rows_per_block > 1 else ""
    lines = [
        f"row kernel({print_parameters(kernel.pointers, kernel.scalars)}) {shape} threads"
        + (", the last rows first" if kernel.is_reversed else ""),
        f"  rows {kernel.rows} vectors {kernel.vector.size} lanes {kernel.lanes}",
    ]
    lines[-1] += " and edges" if kernel.has_edges else ""
    if kernel.splits > 1:
        lines[-1] += f" in {kernel.splits} splits"
        lines[-1] += ", outermost" if kernel.are_parts_outermost else ""
    if kernel.chunk:
        lines[-1] += f", {kernel.chunk} vectors at a time"
    if kernel.batch > 1:
        lines[-1] += f", {kernel.batch} turns at a time"
    lines += [f"  {print_statement(s, names)}" for s in kernel.located]
    loads = (*kernel.fixed, *kernel.once, *(a for a in kernel.kept if a not in kernel.slotted))
    lines += [f"  {a.name} = load {print_access(a, names)}" for a in loads]
    lines += [
        f"  {a.name} = slot of {print_access(a, names)}"
        + (", in registers" if a in kernel.kept else "")
        for a in kernel.slotted
    ]
    lines += [f"  {a.name} = stowed {print_access(a, names)}" for a in kernel.stowed]
    lines += [f"  {s.name} = stretch of {s.access.pointer}" for s in kernel.staged]
    lines += [f"  {a.name} = gathered {print_access(a, names)}" for a in kernel.gathered]
    lines += [f"  {a.name} = brought {print_access(a, names)}" for a in kernel.brought]
    for drawn in kernel.drawn:
        lines += [f"  drawn {drawn.held.name}", *print_scope(drawn.scope, names)]
    for number, phase in enumerate(kernel.phases):
        lines += _print_phase(number, phase, names)
    lines += ["  final", *print_scope(kernel.final, names)]
    if kernel.unchosen is not None:
        lines.append(f"  final, of nothing that equals {_names_of(kernel.unchosen.chosen)}")
        lines += print_scope(kernel.unchosen.scope, names)
    lines += [f"  stretch of {pointer} = {s.name}" for s in kernel.filled for pointer in s.pointers]
    if kernel.single.statements:
        lines += ["  first thread", *print_scope(kernel.single, names)]
    if kernel.sums:
        whose = "each side" if kernel.axes.keeps_sides else "the block"
        lines += [f"  after the rows of {whose}", *print_scope(kernel.columns, names)]
    if kernel.tail is not None:
        totals = [f"    {r.result.name} = {r.op.name}({Tail.left(r)})" for r in kernel.tail.totals]
        lines += ["  after all rows", *totals, *print_scope(kernel.tail.scope, names)]
    return "\n".join(lines)


def _print_phase(number: int, phase: ReducePhase, names: dict[IterDomain, str]) -> list[str]:
    head = f"  phase {number}" + (f", of {phase.met} rows that meet" if phase.met else "")
    if phase.chosen:
        head += f", of what equals {_names_of(phase.chosen)}"
    lines = [head, *print_scope(phase.scope, names)]
    lines += [f"    {print_pairs(p)}" for p in phase.pairs]
    lines += [f"    behind {print_statement(s, names)}" for r in phase.risen for s in r.statements]
    lines += [f"    {r.result.name} = {r.op.name}({r.accumulator.name})" for r in phase.reductions]
    return lines + [
        f"    {s.op.name} of the row{' from its end' if s.reverse else ''} in {s.name}"
        for s in phase.scans
    ]


def _names_of(chosen: Sequence[Reduce]) -> str:
    return " or ".join(reduction.result.name for reduction in chosen)
