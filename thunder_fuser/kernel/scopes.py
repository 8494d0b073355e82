"""What all kernels of rows and columns do for their vectors, and what their threads keep of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from thunder_fuser.analysis.digits import Form, format_form
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.kernel.statements import (
    Assign,
    LaneStatement,
    Operand,
    Variable,
    VectorAccess,
    forms_of,
    print_access,
    print_operand,
    print_statement,
)
from thunder_fuser.ops import OpDef


@dataclass(frozen=True)
class Accumulator:
    """A thread's partial sums: one per lane of each of its vectors, over the rows of the block. One
    that `is_count` is counted in shared memory until then, by all threads."""

    name: str
    dtype: DataType
    op: OpDef
    is_count: bool = field(default=False, kw_only=True)

    @property
    def counts(self) -> str:
        """The name of the array there."""
        return f"{self.name}_counts"

    @property
    def itemsize(self) -> int:
        """Bytes of one value."""
        return self.dtype.compute_type.itemsize * self.op.state_size


@dataclass(frozen=True)
class Count:
    """A `value` of the row, counted in the array `name` by the thread of whose vectors one has a
    lane of that number: those of a vector begin at `first`."""

    name: str
    value: Operand
    first: Form


@dataclass(frozen=True)
class Scope:
    """What is done for every vector of a row: indices that tensors hold, loads, values of the row
    that are counted, lane by lane statements, stores. What there is `once` a row is computed before
    its vectors, and the scopes behind know it."""

    loads: tuple[VectorAccess, ...]
    statements: tuple[LaneStatement, ...]
    stores: tuple[VectorAccess, ...] = ()
    before: tuple[LaneStatement, ...] = ()
    once: tuple[Assign, ...] = ()
    counts: tuple[Count, ...] = ()

    @property
    def forms(self) -> tuple[Form, ...]:
        """Every form that the scope evaluates."""
        accesses = (f for a in (*self.loads, *self.stores) for f in a.forms)
        stated = (*self.once, *self.before, *self.statements)
        counted = (count.first for count in self.counts)
        return (*accesses, *counted, *(f for s in stated for f in forms_of(s)))


@dataclass(frozen=True)
class Held:
    """What a phase leaves in the array `name` for those behind it: an element a lane of each of a
    thread's vectors, or a bit."""

    name: str
    dtype: DataType

    @property
    def is_packed(self) -> bool:
        return self.dtype is DataType.Bool


@dataclass(frozen=True)
class Pairs:
    """What an accumulator takes two elements at a time of a `vector` of that 16-bit type, or two
    sizes: how far they are from zero."""

    accumulator: Variable
    op: OpDef
    vector: str
    dtype: DataType
    of_sizes: bool = False


def print_count(count: Count, names: dict[IterDomain, str]) -> str:
    """What is counted, as a line of text."""
    return (
        f"{count.name} counts {print_operand(count.value)} from {format_form(count.first, names)}"
    )


def print_pairs(pairs: Pairs) -> str:
    """What an accumulator takes, as a line of text."""
    return f"{pairs.accumulator.name} in pairs of {'sizes of ' * pairs.of_sizes}{pairs.vector}"


def print_scope(scope: Scope, names: dict[IterDomain, str]) -> list[str]:
    """The lines of a scope, indented."""
    lines = [f"    once {print_statement(s, names)}" for s in scope.once]
    lines += [f"    {print_statement(s, names)}" for s in scope.before]
    lines += [f"    {a.name} = load {print_access(a, names)}" for a in scope.loads]
    lines += [f"    {print_count(count, names)}" for count in scope.counts]
    lines += [f"    {print_statement(s, names)}" for s in scope.statements]
    return lines + [f"    store {a.name} -> {print_access(a, names)}" for a in scope.stores]
