"""The kernel of the group template.

group kernel(T0: f32*, T1: i64*, T2: i64*, T3: f32*) 1 blocks of 16 rows, 16 x 16 threads
  rows 9 vectors 16 lanes 4, shared beyond 16 terms, 4 terms at a time
  stretch of group row
    T2_0: i64 = T2[-1 + row] where 0 <= -1 + row < 9
    T2_1: i64 = T2[row]
  per term
    T1_0: i64 = T1[term]
    T1_1: i64 = in_range(T1_0, 60)
    v0 = load T0[64*T1_1 + 4*vector], 4 x f32, 16 bytes at a time
    T0_0: f32 = v0[k][1*lane + 0]
    T3_part[lane] group_sum= T0_0
  per row
    w0[1*lane + 0] = T3_row[lane]
    store w0 -> T3[64*row + 4*vector], 4 x f32, 16 bytes at a time
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from thunder_fuser.analysis.digits import Form, ceil_div, format_form
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.kernel.digit_stages import DigitKernel
from thunder_fuser.kernel.scopes import Scope, print_scope
from thunder_fuser.kernel.signature import Pointer, ScalarParameter, print_parameters
from thunder_fuser.kernel.statements import (
    LaneStatement,
    Operand,
    VectorAccess,
    forms_of,
    print_statement,
)
from thunder_fuser.ops import OpDef
from thunder_fuser.schedule.groups import THREADS, GroupAxes
from thunder_fuser.target import MAX_BLOCKS

POINTER_BYTES = 8
FEW_HELD_BYTES = 64  # in the registers of a thread, of which it then has 48
MAX_HELD_BYTES = 128  # of which it then has 64
MAX_PLACED_BYTES = 160  # with the addresses of vectors that may reach the end of memory; then 80


@dataclass(frozen=True)
class GroupSum:
    """A thread's sums, one per lane, in the array `name_part`; those of a row in `name_row`, which
    `rounded` asks to have the precision of a type, as the trace has."""

    name: str
    dtype: DataType
    op: OpDef
    rounded: DataType | None


@dataclass(frozen=True)
class Between:
    """The terms of a row lie in the order from `begin` to before `end`, values that `before`
    computes. `group` is the row's group; that of `skip` has no terms. Ends that nobody vouches for
    are cut to the order."""

    before: tuple[LaneStatement, ...]
    begin: Operand
    end: Operand
    group: Form
    skip: int
    is_trusted: bool


@dataclass(frozen=True)
class Whole:
    """The terms of a row are the `size` ones of the piece `number`, if their first and their last
    key are one, and not `skip`; else it has none."""

    before: tuple[LaneStatement, ...]
    first: Operand
    last: Operand
    number: Form
    skip: int
    size: int


Stretch: TypeAlias = Between | Whole


@dataclass(frozen=True)
class Pieces:
    """`loop` adds the sum of a piece of `size` terms in place of the terms."""

    loop: Scope
    size: int


@dataclass(frozen=True)
class GroupKernel:
    """One launch. `loop` adds a term of a row to `sums`, the vectors of a `batch` of terms on their
    way together, and before them those of the first terms of `ahead` rows; `final` is done once per
    row and vector. A row of more than `few` terms is shared by the `parts` of a block, which add
    whole `pieces`. Blocks whose rows have no more than `held` terms have all of them in shared
    memory first."""

    pointers: tuple[Pointer, ...]
    scalars: tuple[ScalarParameter, ...]
    axes: GroupAxes
    threads_across: int
    parts: int
    rows_per_block: int
    few: int
    batch: int
    ahead: int
    batch_held: int
    stretch: Stretch
    loop: Scope
    pieces: Pieces | None
    sums: tuple[GroupSum, ...]
    final: Scope
    beside: DigitKernel | None  # what blocks before those of the rows do

    @property
    def threads(self) -> int:
        return self.threads_across * self.parts

    @property
    def window(self) -> int:
        """Terms of a window."""
        return self.batch_held * self.parts

    @property
    def chunks(self) -> int:
        """Blocks side by side along a row."""
        return ceil_div(self.axes.vector.size, self.threads_across)

    @property
    def row_blocks(self) -> int:
        """Blocks that sum rows."""
        return ceil_div(self.axes.row.size, self.rows_per_block) * self.chunks

    @property
    def blocks(self) -> int:
        return self.row_blocks + (self.beside.blocks if self.beside is not None else 0)

    @property
    def blocks_at_once(self) -> int:
        """Blocks that are to fit on a multiprocessor: what their threads hold leaves registers, of
        small blocks to more of them."""
        held = sum(_held_bytes(a) for a in self.loop.loads) * self.batch
        rooms = ((FEW_HELD_BYTES, 5), (MAX_HELD_BYTES, 4), (MAX_PLACED_BYTES, 3))
        most = next((blocks for limit, blocks in rooms if held <= limit), 2)
        return min(most * THREADS // self.threads, MAX_BLOCKS)

    @property
    def names(self) -> dict[IterDomain, str]:
        """A loop over pieces counts as one over terms does."""
        return {**self.axes.names, self.axes.piece: "term"}

    @property
    def reach(self) -> int:
        """The largest absolute value of an offset."""
        forms = [*self.loop.forms, *self.final.forms]
        forms += [f for s in self.stretch.before for f in forms_of(s)]
        forms += self.pieces.loop.forms if self.pieces is not None else ()
        rows = self.axes.row.size + self.rows_per_block
        batch = max(self.batch, self.batch_held)
        sizes = (self.axes.term.size + batch * self.parts, rows)
        return max(*sizes, *(form.reach for form in forms))

    def __str__(self) -> str:
        axes, names = self.axes, self.names
        block = f"{self.rows_per_block} rows, {self.threads_across} x {self.parts} threads"
        shape = f"{self.row_blocks} blocks of {block}"
        ahead = f", the first of {self.ahead} rows ahead" if self.ahead > 1 else ""
        ahead += f", in windows of {self.window}" if self.window else ""
        lines = [
            f"group kernel({print_parameters(self.pointers, self.scalars)}) {shape}",
            f"  rows {axes.row.size} vectors {axes.vector.size} lanes {axes.lanes}, "
            f"shared beyond {self.few} terms, {self.batch} terms at a time{ahead}",
            f"  {_print(self.stretch, names)}",
            *(f"    {print_statement(s, names)}" for s in self.stretch.before),
            "  per term",
            *print_scope(self.loop, names),
        ]
        if self.pieces is not None:
            lines += [f"  per piece of {self.pieces.size}", *print_scope(self.pieces.loop, names)]
        lines += ["  per row", *print_scope(self.final, names)]
        if self.beside is not None:
            lines.append(f"  {self.beside.blocks} blocks before: {self.beside.call}")
        return "\n".join(lines)


def _held_bytes(access: VectorAccess) -> int:
    """In the registers of a thread: of a row the words that a vector is put together of, and where
    they are if memory may end inside of one."""
    size = access.length * access.dtype.itemsize
    address = 0 if access.end is None else POINTER_BYTES
    return size + MAX_ALIGNMENT + address if access.is_of_row else size


def _print(stretch: Stretch, names: dict[IterDomain, str]) -> str:
    match stretch:
        case Between(group=group):
            return f"stretch of group {format_form(group, names)}"
        case Whole(number=number, size=size):
            return f"stretch of {size} of piece {format_form(number, names)}, of one key"
