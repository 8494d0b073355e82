"""The statement IR of a kernel: what the CUDA text is printed from.

A kernel is a list of bodies, each run by a range of blocks. A body decomposes the thread's number
into loop indices, loads all vectors, computes lane by lane, stores.

    body  blocks [0, 512)  axes i0{1024}, i1{8}  lanes 8
      t0 = load T0[128*i0 + 8*i1], 8 x bf16, 16 bytes at a time
      lanes
        T1 = cast(t0[lane])
      store T1 -> T5[...]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import TypeAlias

from thunder_fuser.analysis.digits import Form, ceil_div, format_form
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.ir.scalar import Number, format_number
from thunder_fuser.ops import OpDef
from thunder_fuser.schedule.strips import Strip
from thunder_fuser.schedule.tiles import Tile


class Accuracy(Enum):
    """Which of a row's expressions computes a value."""

    STRICT = "strict"  # as the trace rounds it
    NORMAL = "normal"
    FAST = "fast"  # the value ends in a 16-bit float


@dataclass(frozen=True)
class Variable:
    """A value of one lane, held in a register as `dtype`; one `of_row` is the same in all of it."""

    name: str
    dtype: DataType
    of_row: bool = False


@dataclass(frozen=True)
class Literal:
    value: Number
    dtype: DataType


Operand: TypeAlias = Variable | Literal


@dataclass(frozen=True)
class Compute:
    """An op row on operands of the types that the row asks for; `dtype` is the result's."""

    op: OpDef
    args: tuple[Operand, ...]
    dtype: DataType
    accuracy: Accuracy


@dataclass(frozen=True)
class Convert:
    arg: Operand
    dtype: DataType


@dataclass(frozen=True)
class Round:
    """`arg` rounded to the precision of `dtype` and widened again, as the trace rounds."""

    arg: Operand
    dtype: DataType


@dataclass(frozen=True)
class ReadVector:
    """Element `weight * lane + delta` of a loaded vector."""

    vector: str
    weight: int
    delta: int
    dtype: DataType


@dataclass(frozen=True)
class ReadElement:
    """One element from memory, or zero where a window is left: such a value is never selected."""

    pointer: str
    offset: Form
    dtype: DataType
    windows: tuple[Window, ...]


@dataclass(frozen=True)
class ReadSquare:
    """The element at the thread's place in a square, or a strip, that a block keeps in shared
    memory."""

    square: str
    tile: Tile | Strip
    dtype: DataType


@dataclass(frozen=True)
class IndexValue:
    """An index as a 64-bit integer."""

    form: Form


@dataclass(frozen=True)
class InRange:
    """An index that a tensor holds. The launch fails where it lies outside of [0, extent)."""

    index: Operand
    extent: int


@dataclass(frozen=True)
class Random:
    """A Philox number in [low, high) of the element at `index` of the contiguous random tensor."""

    seed: Operand
    offset: Operand
    index: Form
    low: Operand
    high: Operand
    dtype: DataType


@dataclass(frozen=True)
class Select:
    """`inside` where every window holds, else `outside`."""

    windows: tuple[Window, ...]
    inside: Operand
    outside: Operand


@dataclass(frozen=True)
class Combine:
    """The terms of a short reduction, combined left to right in `dtype`."""

    op: OpDef
    terms: tuple[Operand, ...]
    dtype: DataType


Expression: TypeAlias = (
    Compute
    | Convert
    | Round
    | ReadVector
    | ReadElement
    | ReadSquare
    | IndexValue
    | InRange
    | Random
    | Select
    | Combine
)


@dataclass(frozen=True)
class Assign:
    variable: Variable
    value: Expression


@dataclass(frozen=True)
class WriteVector:
    """Element `weight * lane + delta` of a vector that will be stored."""

    vector: str
    weight: int
    delta: int
    value: Operand
    dtype: DataType


@dataclass(frozen=True)
class WriteElement:
    pointer: str
    offset: Form
    value: Operand
    dtype: DataType


@dataclass(frozen=True)
class WriteSquare:
    """The element at the thread's place in a square that will be stored."""

    square: str
    tile: Tile | Strip
    value: Operand
    dtype: DataType


@dataclass(frozen=True)
class Accumulate:
    """`value` combined into a thread's accumulator of a reduction, where all windows hold."""

    accumulator: Variable
    op: OpDef
    value: Operand
    windows: tuple[Window, ...] = ()


@dataclass(frozen=True)
class Hold:
    """`value` left in the thread's place of an array, for later scopes."""

    place: Variable
    value: Operand


LaneStatement: TypeAlias = Assign | WriteVector | WriteElement | WriteSquare | Accumulate | Hold


@dataclass(frozen=True)
class VectorAccess:
    """`length` elements at `pointer + offset`, moved `access_bytes` at a time. A streaming access
    is marked as the last one to its lines; None is one that would not be, whatever its size. With a
    window, whose form tells the place of element 0, only those elements are moved whose places are
    in it: all or none of them for one that `is_apart`. With a `lane` the elements may lie apart,
    each at the offset that it gives there. A load with `guards` is left out where one of them does
    not hold, and has zeros."""

    name: str
    pointer: str
    offset: Form
    length: int
    access_bytes: int
    dtype: DataType
    is_streaming: bool | None = None
    window: Window | None = None
    is_apart: bool = False
    lane: IterDomain | None = None
    guards: tuple[Window, ...] = ()

    @property
    def bases(self) -> frozenset[IterDomain]:
        """What it depends on where, and whether, it is loaded."""
        return self.offset.bases.union(*(guard.form.bases for guard in self.guards))


@dataclass(frozen=True)
class Turning:
    """What a body moves through shared memory: each access fills, or empties, the square of its
    name, `loads` before anything is computed, `stores` after it."""

    tile: Tile
    loads: tuple[VectorAccess, ...]
    stores: tuple[VectorAccess, ...]

    @property
    def shared_bytes(self) -> int:
        return sum(self.bytes_of(access) for access in (*self.loads, *self.stores))

    def bytes_of(self, access: VectorAccess) -> int:
        """Of the square of an access, behind which another one is aligned."""
        size = self.tile.elements * access.dtype.itemsize
        return ceil_div(size, MAX_ALIGNMENT) * MAX_ALIGNMENT


@dataclass(frozen=True)
class Body:
    """The work of one range of blocks. `axes` are outermost first; `lane` runs inside a thread.
    `before` has the indices that tensors hold and loads need, once for all lanes. A thread `inside`
    of the window has another body for the same work, with less arithmetic on indices."""

    axes: tuple[IterDomain, ...]
    lane: IterDomain | None
    lanes: int
    loads: tuple[VectorAccess, ...]
    statements: tuple[LaneStatement, ...]
    stores: tuple[VectorAccess, ...]
    before: tuple[LaneStatement, ...] = ()
    turning: Turning | None = None
    inside: tuple[Window, Body] | None = None

    @property
    def threads(self) -> int:
        """Threads with work in this body, if each does one vector."""
        return prod(axis.size for axis in self.axes)

    def blocks(self, threads: int) -> int:
        """Blocks of so many threads."""
        if self.turning is None:
            return ceil_div(self.threads, threads)
        return prod(self.turning.tile.counts(self.axes))

    @property
    def names(self) -> dict[IterDomain, str]:
        found = {axis: f"i{k}" for k, axis in enumerate(self.axes)}
        if self.turning is not None:
            tile = self.turning.tile
            found |= {tile.turned_down: found[tile.down], tile.turned_across: found[tile.across]}
        return found if self.lane is None else {**found, self.lane: "lane"}

    @property
    def forms(self) -> tuple[Form, ...]:
        """Every form the body evaluates."""
        turned = () if self.turning is None else (*self.turning.loads, *self.turning.stores)
        accesses = (access.offset for access in (*self.loads, *self.stores, *turned))
        guards = (guard.form for access in self.loads for guard in access.guards)
        straight = () if self.inside is None else (self.inside[0].form, *self.inside[1].forms)
        stated = (f for s in (*self.before, *self.statements) for f in forms_of(s))
        return (*accesses, *guards, *stated, *straight)


def forms_of(statement: LaneStatement) -> tuple[Form, ...]:
    """The forms that a statement evaluates."""
    match statement:
        case WriteElement(offset=offset):
            return (offset,)
        case Assign(value=ReadElement(offset=offset, windows=windows)):
            return (offset, *(w.form for w in windows))
        case Assign(value=Select(windows=windows)):
            return tuple(w.form for w in windows)
        case Accumulate(windows=windows):
            return tuple(w.form for w in windows)
        case Assign(value=IndexValue(form=form) | Random(index=form)):
            return (form,)
        case _:
            return ()


@dataclass(frozen=True)
class Pointer:
    """A tensor argument. A written one may also be read, so it gets no `__restrict__`."""

    name: str
    dtype: DataType
    is_written: bool
    is_read: bool


@dataclass(frozen=True)
class ScalarParameter:
    name: str
    dtype: DataType


@dataclass(frozen=True)
class BlockRange:
    """Bodies that take turns over a range of blocks, `counts` blocks of each per round, so that
    blocks that run together work on the same lines."""

    bodies: tuple[Body, ...]
    counts: tuple[int, ...]
    rounds: int
    start: int  # the first block

    @property
    def length(self) -> int:
        """Blocks of one round."""
        return sum(self.counts)

    @property
    def end(self) -> int:
        return self.start + self.rounds * self.length


@dataclass(frozen=True)
class Kernel:
    """One launch. Bodies that write parts of the same tensors stand in one group and take turns;
    the groups follow one another, and the blocks of one that `is_reversed` come last to first."""

    pointers: tuple[Pointer, ...]
    scalars: tuple[ScalarParameter, ...]
    groups: tuple[tuple[Body, ...], ...]
    threads: int
    is_reversed: bool = False

    @property
    def ranges(self) -> tuple[BlockRange, ...]:
        """The block ranges of the groups."""
        made: list[BlockRange] = []
        for bodies in self.groups:
            blocks = [body.blocks(self.threads) for body in bodies]
            rounds = min(blocks)
            counts = tuple(-(-count // rounds) for count in blocks)
            made.append(BlockRange(bodies, counts, rounds, made[-1].end if made else 0))
        return tuple(made)

    @property
    def blocks(self) -> int:
        """Blocks of the launch."""
        return self.ranges[-1].end if self.groups else 0

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block, which runs one of the bodies."""
        turnings = [body.turning for group in self.groups for body in group]
        return max((t.shared_bytes for t in turnings if t is not None), default=0)

    def __str__(self) -> str:
        return print_kernel(self)


def print_kernel(kernel: Kernel) -> str:
    given = print_parameters(kernel.pointers, kernel.scalars)
    lines = [f"kernel({given}) {kernel.blocks} blocks of {kernel.threads}"]
    lines[0] += ", the last one first" if kernel.is_reversed else ""
    for group in kernel.ranges:
        lines.append(f"  blocks [{group.start}, {group.end}) in {group.rounds} rounds")
        for body, count in zip(group.bodies, group.counts, strict=True):
            lines += _print_body(body, count)
    return "\n".join(lines)


def print_parameters(pointers: Sequence[Pointer], scalars: Sequence[ScalarParameter]) -> str:
    """`T0: bf16*, s0: f32`."""
    given = [
        *(f"{p.name}: {p.dtype}*" for p in pointers),
        *(f"{s.name}: {s.dtype}" for s in scalars),
    ]
    return ", ".join(given)


def _print_body(body: Body, count: int) -> list[str]:
    names = body.names
    axes = ", ".join(f"{names[a]}{{{a.size}}}" for a in body.axes)
    lines = [f"  {count} blocks per round, axes {axes} lanes {body.lanes}"]
    lines += [f"    {print_statement(s, names)}" for s in body.before]
    lines += [f"    {a.name} = load {print_access(a, names)}" for a in body.loads]
    if body.turning is not None:
        lines[0] += f" in {body.turning.tile}"
        lines += [f"    {a.name} = turn {print_access(a, names)}" for a in body.turning.loads]
    lines += [f"    {print_statement(s, names)}" for s in body.statements]
    lines += [f"    store {a.name} -> {print_access(a, names)}" for a in body.stores]
    if body.turning is not None:
        lines += [f"    turn {a.name} -> {print_access(a, names)}" for a in body.turning.stores]
    return lines


def print_access(access: VectorAccess, names: dict[IterDomain, str]) -> str:
    offset = format_form(access.offset, names)
    size = f"{access.length} x {access.dtype}, {access.access_bytes} bytes at a time"
    inside = "" if access.window is None else _windows((access.window,), names)
    inside += ", all or none of them" if access.is_apart else ""
    inside += _windows(access.guards, names)
    streaming = ", streaming" if access.is_streaming else ""
    return f"{access.pointer}[{offset}], {size}{streaming}{inside}"


def print_statement(statement: LaneStatement, names: dict[IterDomain, str]) -> str:
    match statement:
        case Assign(variable, value):
            return f"{variable.name}: {variable.dtype} = {_expression(value, names)}"
        case WriteVector(vector, weight, delta, value):
            return f"{vector}[{weight}*lane + {delta}] = {_operand(value)}"
        case WriteSquare(square, _, value):
            return f"{square}[vector + lane, row] = {_operand(value)}"
        case WriteElement(pointer, offset, value):
            return f"{pointer}[{format_form(offset, names)}] = {_operand(value)}"
        case Accumulate(accumulator, op, value, windows):
            return f"{accumulator.name} {op.name}= {_operand(value)}{_windows(windows, names)}"
        case Hold(place, value):
            return f"{place.name} = {_operand(value)}"


def _expression(value: Expression, names: dict[IterDomain, str]) -> str:
    match value:
        case Compute(op, args):
            return f"{op.name}({', '.join(map(_operand, args))})"
        case Convert(arg, dtype):
            return f"convert({_operand(arg)}, {dtype})"
        case Round(arg, dtype):
            return f"round({_operand(arg)}, {dtype})"
        case ReadVector(vector, weight, delta):
            return f"{vector}[{weight}*lane + {delta}]"
        case ReadElement(pointer, offset, _, windows):
            return f"{pointer}[{format_form(offset, names)}]{_windows(windows, names)}"
        case ReadSquare(square):
            return f"{square}[vector + lane, row]"
        case IndexValue(form):
            return f"index({format_form(form, names)})"
        case InRange(place, extent):
            return f"in_range({_operand(place)}, {extent})"
        case Random(seed, offset, index):
            return f"philox({_operand(seed)}, {_operand(offset)}, {format_form(index, names)})"
        case Select(windows, inside, outside):
            return f"{_operand(inside)} else {_operand(outside)}{_windows(windows, names)}"
        case Combine(op, terms):
            return f"{op.name}({', '.join(map(_operand, terms))})"


def _windows(windows: tuple[Window, ...], names: dict[IterDomain, str]) -> str:
    tests = [f"0 <= {format_form(w.form, names)} < {w.extent}" for w in windows]
    return f" where {' and '.join(tests)}" if tests else ""


def _operand(operand: Operand) -> str:
    return operand.name if isinstance(operand, Variable) else format_number(operand.value)
