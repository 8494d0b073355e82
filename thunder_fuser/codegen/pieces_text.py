"""Rows of which a warp has a piece, reduced along them and down their columns, as C++ text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thunder_fuser.codegen.blocks import block, each, when
from thunder_fuser.codegen.statements import (
    lane_lines,
    load_call,
    load_text,
    number,
    scope_lines,
)
from thunder_fuser.codegen.types import CUDA_TYPES, index_type
from thunder_fuser.kernel.column_ir import ColumnKernel, Pieces
from thunder_fuser.kernel.statements import Accumulate, Hold, LaneStatement, Variable
from thunder_fuser.target import WARP


def rows_of_pieces(kernel: ColumnKernel, pieces: Pieces, first: str, last: str) -> list[str]:
    """The rows of a warp, a batch at a time, without tests but in the last one."""
    dealt = f"{number(kernel.splits)} * " if kernel.splits > 1 else ""
    end, whole = (f"{dealt}{kernel.threads_down * n}" for n in (kernel.batch - 1, kernel.batch))
    walk = _Walk(kernel, pieces, f"{dealt}{kernel.threads_down}", first)
    loads = (a for a in kernel.loop.loads if kernel.axes.row not in a.bases)
    return [
        *(load_text(a, kernel.names) for a in loads),
        f"{walk.kind} start = {first};",
        *block(f"for (; start + {end} < {last}; start += {whole})", walk.batch(None)),
        *when([f"start < {last}"], walk.batch(last)),
        f"tf::below_tops({walk.states});",
    ]


@dataclass(frozen=True)
class _Walk:
    """How a warp goes from row to row: by `step` from one of a batch to the next, from the `first`
    row on."""

    kernel: ColumnKernel
    pieces: Pieces
    step: str
    first: str

    @property
    def kind(self) -> str:
        """The type of a row's number."""
        return index_type(self.kernel.reach)

    @property
    def states(self) -> str:
        """What a thread knows of its columns."""
        return f"{self.pieces.total.name}_part, {self.pieces.top.name}_part"

    def batch(self, last: str | None) -> list[str]:
        """A batch of rows, none of which is behind `last`: those that are have no terms."""
        kernel, pieces, size = self.kernel, self.pieces, self.kernel.batch
        loads = [a for a in kernel.loop.loads if kernel.axes.row in a.bases]
        tests = [] if last is None else [f"row < {last}"]
        row = f"const {self.kind} row = start + k * {self.step};"
        vectors = (f"{CUDA_TYPES[a.dtype]}, {a.length}, {size}> {a.name}" for a in loads)
        lines = [f"tf::Vectors<{vector}_rows;" for vector in vectors]
        values, left = f"{pieces.vector}_rows", list[str]()
        if pieces.vector is None:
            values = f"{pieces.total.name}_terms"
            given = [f"const auto {a.name} = {a.name}_rows.v[k];" for a in loads]
            terms = _left(kernel.loop.statements, pieces, values)
            found = lane_lines(terms, (), kernel.names, kernel.axes.lanes)
            left = each("k", size, [row, *when(tests, [*given, *found])])
            lines += [f"tf::Rows<{kernel.axes.lanes}, {size}> {values};"]
        taken = [f"{a.name}_rows.v[k] = {load_call(a, kernel.names)};" for a in loads]
        met = f"tf::both_ways<{size}>({self.states}, {values}, start == {self.first})"
        apart, stored = WARP // size, scope_lines(pieces.scope, kernel.names, 1)
        return [
            *lines,
            *([f"tf::clear({values});"] if tests else []),
            *each("k", size, [row, *when(tests, taken)]),
            *left,
            f"const auto {pieces.name} = {met};",
            f"const int k = place / {apart};",
            row,
            *when([f"place % {apart} == 0", *tests], stored),
        ]


def _left(
    statements: Sequence[LaneStatement], pieces: Pieces, terms: str
) -> tuple[LaneStatement, ...]:
    """The statements of a row, which leave its terms in an array."""
    found = list[LaneStatement]()
    for statement in statements:
        if not isinstance(statement, Accumulate):
            found.append(statement)
        elif statement.op is pieces.total.op:
            place = Variable(f"{terms}.v[lane][k]", statement.value.dtype)
            found.append(Hold(place, statement.value))
    return tuple(found)
