"""What a thread does, in every kernel: it loads vectors, computes lane by lane, stores vectors.

v0 = load T0[8*i0], 8 x bf16, 16 bytes at a time
T0_0: f32 = v0[1*lane + 0]
T1_0: f32 = exp(T0_0)
w0[1*lane + 0] = T1_0
store w0 -> T1[8*i0], 8 x bf16, 16 bytes at a time

Expressions and lane statements are closed unions: codegen prints each of them, `forms_of` knows
which indices each evaluates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from typing_extensions import assert_never

from thunder_fuser.analysis.digits import ZERO, Form, format_form
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.ir.scalar import Number, format_number, number_bits
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
    """A value of one lane, held in a register as `dtype`; one `of_row` is the same in all of it. A
    denominator of a softmax is at least 1, or no number."""

    name: str
    dtype: DataType
    of_row: bool = False
    is_from_one: bool = False


@dataclass(frozen=True, eq=False)
class Literal:
    """A number that is known, as one of `dtype`. -0.0 is another one than 0.0."""

    value: Number
    dtype: DataType

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        return self.dtype, number_bits(self.value)


Operand: TypeAlias = Variable | Literal


@dataclass(frozen=True)
class Compute:
    """An op row on operands of the types that the row asks for; `dtype` is the result's. What fails
    for a lane ends the launch behind the loop over all lanes where it is checked `by_lane`."""

    op: OpDef
    args: tuple[Operand, ...]
    dtype: DataType
    accuracy: Accuracy
    by_lane: bool = False


@dataclass(frozen=True)
class Convert:
    """`arg` as one of `dtype`, as torch converts it."""

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
    memory; of a row that lies so many elements `late` there."""

    square: str
    tile: Tile | Strip
    dtype: DataType
    late: Form = ZERO


@dataclass(frozen=True)
class IndexValue:
    """An index of an axis of so many elements, as a 64-bit integer."""

    form: Form
    extent: int


@dataclass(frozen=True)
class Random:
    """What `op` draws from Philox for the element at `index` of the contiguous random tensor."""

    op: OpDef
    args: tuple[Operand, ...]
    index: Form
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
    | Random
    | Select
    | Combine
)


def operands_of(value: Expression) -> tuple[Operand, ...]:
    """The variables and literals that it is computed of."""
    match value:
        case Compute(args=operands) | Random(args=operands) | Combine(terms=operands):
            return operands
        case Convert(arg) | Round(arg):
            return (arg,)
        case Select(_, inside, outside):
            return inside, outside
        case ReadVector() | ReadElement() | ReadSquare() | IndexValue():
            return ()
        case _:
            assert_never(value)


@dataclass(frozen=True)
class Assign:
    """A variable that is given its only value."""

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
    """One element to memory, where all windows hold."""

    pointer: str
    offset: Form
    value: Operand
    dtype: DataType
    windows: tuple[Window, ...] = ()


@dataclass(frozen=True)
class WriteSquare:
    """The element at the thread's place in a square that will be stored, of a row as of a square
    that is read."""

    square: str
    tile: Tile | Strip
    value: Operand
    dtype: DataType
    late: Form = ZERO


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
class Carried:
    """From lane `left` on, if a vector has it, what its lanes read lies at `offset`."""

    left: Form
    offset: Form


@dataclass(frozen=True)
class Guarded:
    """An offset, and what holds where it is read."""

    offset: Form
    guards: tuple[Window, ...]

    @property
    def forms(self) -> tuple[Form, ...]:
        return (self.offset, *(guard.form for guard in self.guards))


@dataclass(frozen=True)
class VectorAccess:
    """`length` elements at `pointer + offset`, moved `access_bytes` at a time. A streaming access
    is marked as the last one to its lines; None is one that would not be, whatever its size. With a
    window, whose form tells the place of element 0, only those elements are moved whose places are
    in it: all or none of them for one that `is_apart`; one that `is_of_row` reads words of the row
    that the window is, of memory that may `end` inside a word, behind so many elements. What is
    known to be written nowhere `is_constant`. With a `lane` what is moved at a time lies apart, at
    the offset of its first lane; else those of two lanes are `step` elements apart. A load with
    `guards` is left out where one of them does not hold, and has zeros. One that is `carried` has
    two elements, that of the first lanes and that of the others. With `others` a lane reads there
    what is under their guards, which exclude each other. One that `is_in_words` is moved in
    aligned words, of which threads side by side hand each other parts. Elements that lie `before`
    and `behind` it are loaded one by one, under guards of their own, and are of the vector too."""

    name: str
    pointer: str
    offset: Form
    length: int
    access_bytes: int
    dtype: DataType
    is_streaming: bool | None = None
    window: Window | None = None
    is_apart: bool = False
    is_of_row: bool = False
    is_constant: bool = False
    end: int | None = None
    lane: IterDomain | None = None
    guards: tuple[Window, ...] = ()
    step: int = 0
    carried: Carried | None = None
    others: tuple[Guarded, ...] = ()
    is_in_words: bool = False
    before: tuple[Guarded, ...] = ()
    behind: tuple[Guarded, ...] = ()

    @property
    def elements(self) -> int:
        """Of the vector with those beside it."""
        return len(self.before) + self.length + len(self.behind)

    @property
    def beside(self) -> tuple[Guarded, ...]:
        return (*self.before, *self.behind)

    @property
    def choices(self) -> tuple[Guarded, ...]:
        """Where an element may lie, and under which guards it is there."""
        return (Guarded(self.offset, self.guards), *self.others)

    @property
    def forms(self) -> tuple[Form, ...]:
        """Every form that it evaluates."""
        carried = () if self.carried is None else (self.carried.left, self.carried.offset)
        chosen = (form for choice in (*self.choices, *self.beside) for form in choice.forms)
        return (*carried, *chosen)

    @property
    def bases(self) -> frozenset[IterDomain]:
        """What it depends on where, and whether, it is loaded."""
        forms = (form for choice in (*self.choices, *self.beside) for form in choice.forms)
        return frozenset[IterDomain]().union(*(form.bases for form in forms))


def checked_by_lane(statements: Iterable[LaneStatement]) -> tuple[LaneStatement, ...]:
    """The statements of a loop over lanes: those that check an operand fail behind the loop."""
    return tuple(map(_by_lane, statements))


def _by_lane(statement: LaneStatement) -> LaneStatement:
    match statement:
        case Assign(variable, Compute() as value) if value.op.checks:
            return Assign(variable, replace(value, by_lane=True))
    return statement


def forms_of(statement: LaneStatement) -> tuple[Form, ...]:
    """The forms that a statement evaluates."""
    match statement:
        case WriteSquare(late=form):
            return (form,)
        case (
            WriteElement(offset=offset, windows=windows)
            | Assign(value=ReadElement(offset=offset, windows=windows))
        ):
            return (offset, *(w.form for w in windows))
        case Assign(value=Select(windows=windows)):
            return tuple(w.form for w in windows)
        case Accumulate(windows=windows):
            return tuple(w.form for w in windows)
        case Assign(value=IndexValue(form=form) | Random(index=form) | ReadSquare(late=form)):
            return (form,)
        case _:
            return ()


def print_access(access: VectorAccess, names: dict[IterDomain, str]) -> str:
    offset = format_form(access.offset, names)
    size = f"{access.length} x {access.dtype}, {access.access_bytes} bytes at a time"
    inside = "" if access.window is None else _windows((access.window,), names)
    inside += ", all or none of them" if access.is_apart else ""
    inside += ", in aligned words" if access.is_in_words else ""
    inside += _windows(access.guards, names)
    for choice in access.others:
        inside += f", [{format_form(choice.offset, names)}]{_windows(choice.guards, names)}"
    for side, singles in (("before", access.before), ("behind", access.behind)):
        for single in singles:
            at = format_form(single.offset, names)
            inside += f", {side} it [{at}]{_windows(single.guards, names)}"
    streaming = ", streaming" if access.is_streaming else ""
    if access.carried is not None:
        left, other = (format_form(f, names) for f in (access.carried.left, access.carried.offset))
        inside += f", from lane {left} on that at {other}"
    return f"{access.pointer}[{offset}], {size}{streaming}{inside}"


def print_statement(statement: LaneStatement, names: dict[IterDomain, str]) -> str:
    match statement:
        case Assign(variable, value):
            return f"{variable.name}: {variable.dtype} = {_expression(value, names)}"
        case WriteVector(vector, weight, delta, value):
            return f"{vector}[{weight}*lane + {delta}] = {print_operand(value)}"
        case WriteSquare(square, _, value, late=late):
            return f"{square}[vector + lane, row{_beside(late, names)}] = {print_operand(value)}"
        case WriteElement(pointer, offset, value, _, windows):
            place = f"{pointer}[{format_form(offset, names)}]"
            return f"{place} = {print_operand(value)}{_windows(windows, names)}"
        case Accumulate(accumulator, op, value, windows):
            return f"{accumulator.name} {op.name}= {print_operand(value)}{_windows(windows, names)}"
        case Hold(place, value):
            return f"{place.name} = {print_operand(value)}"


def _expression(value: Expression, names: dict[IterDomain, str]) -> str:
    match value:
        case Compute(op, args):
            return f"{op.name}({', '.join(map(print_operand, args))})"
        case Convert(arg, dtype):
            return f"convert({print_operand(arg)}, {dtype})"
        case Round(arg, dtype):
            return f"round({print_operand(arg)}, {dtype})"
        case ReadVector(vector, weight, delta):
            return f"{vector}[{weight}*lane + {delta}]"
        case ReadElement(pointer, offset, _, windows):
            return f"{pointer}[{format_form(offset, names)}]{_windows(windows, names)}"
        case ReadSquare(square, late=late):
            return f"{square}[vector + lane, row{_beside(late, names)}]"
        case IndexValue(form):
            return f"index({format_form(form, names)})"
        case Random(op, args, index):
            drawn = ", ".join((*map(print_operand, args), format_form(index, names)))
            return f"{op.name}({drawn})"
        case Select(windows, inside, outside):
            return (
                f"{print_operand(inside)} else {print_operand(outside)}{_windows(windows, names)}"
            )
        case Combine(op, terms):
            return f"{op.name}({', '.join(map(print_operand, terms))})"


def _beside(late: Form, names: dict[IterDomain, str]) -> str:
    return "" if late == ZERO else f" + {format_form(late, names)}"


def _windows(windows: tuple[Window, ...], names: dict[IterDomain, str]) -> str:
    tests = [f"0 <= {format_form(w.form, names)} < {w.extent}" for w in windows]
    return f" where {' and '.join(tests)}" if tests else ""


def print_operand(operand: Operand) -> str:
    return operand.name if isinstance(operand, Variable) else format_number(operand.value)
