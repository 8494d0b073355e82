"""The column kernel's body as C++ text."""

from __future__ import annotations

from thunder_fuser.codegen.statements import (
    indent,
    lane_lines,
    load_text,
    number,
    statement_text,
)
from thunder_fuser.codegen.types import COMPUTE_TYPES, INT_LIMIT
from thunder_fuser.kernel.column_ir import ColumnKernel
from thunder_fuser.kernel.row_ir import Accumulator, Scope

UNROLL = 4  # rows whose loads are in flight together


def column_lines(kernel: ColumnKernel) -> list[str]:
    """The statements of the entry point."""
    across, down, lanes = kernel.threads_across, kernel.threads_down, kernel.axes.lanes
    vectors, rows = number(kernel.axes.vector.size), number(kernel.axes.row.size)
    kind = "long long" if kernel.reach >= INT_LIMIT else "int"
    lines = [
        f"const int part = threadIdx.x / {across};",
        f"const int place = threadIdx.x % {across};",
        f"const {kind} vector = ({kind})blockIdx.x * {across} + place;",
    ]
    for total in kernel.sums:
        lines.append(f"{COMPUTE_TYPES[total.dtype]} {total.name}_part[{lanes}];")
        lines += _per_lane(f"{total.name}_part[lane] = {_identity(total)};", lanes)
    loop = f"for ({kind} row = part; row < {rows}; row += {down}) {{"
    loop_lines = [f"#pragma unroll {UNROLL}", loop, *indent(_scope(kernel.loop, kernel)), "}"]
    lines += [f"if (vector < {vectors}) {{", *indent(loop_lines), "}"]
    if down > 1:
        lines += _share(kernel)
    condition = f"vector < {vectors}" + (" && part == 0" if down > 1 else "")
    final = [line for total in kernel.sums for line in _total(total, kernel)]
    return [*lines, f"if ({condition}) {{", *indent([*final, *_scope(kernel.final, kernel)]), "}"]


def _share(kernel: ColumnKernel) -> list[str]:
    """The parts of each column, put side by side in shared memory."""
    width, lanes = kernel.threads_across * kernel.axes.lanes, kernel.axes.lanes
    lines = []
    for total in kernel.sums:
        kind = COMPUTE_TYPES[total.dtype]
        lines.append(f"__shared__ {kind} {total.name}_parts[{kernel.threads_down}][{width}];")
        copy = f"{total.name}_parts[part][{lanes} * place + lane] = {total.name}_part[lane];"
        lines += _per_lane(copy, lanes)
    return [*lines, "__syncthreads();"]


def _total(total: Accumulator, kernel: ColumnKernel) -> list[str]:
    """The value of one sum per lane, parts combined from the first to the last."""
    kind, lanes = COMPUTE_TYPES[total.dtype], kernel.axes.lanes
    lines = [f"{kind} {total.name}_row[{lanes}];"]
    lines += _per_lane(f"{total.name}_row[lane] = {total.name}_part[lane];", lanes)
    if kernel.threads_down > 1:
        other = f"{total.name}_parts[other][{lanes} * place + lane]"
        combined = total.op.combine.format(f"{total.name}_row[lane]", other, t=kind)
        lines.append(f"for (int other = 1; other < {kernel.threads_down}; ++other) {{")
        lines += indent(_per_lane(f"{total.name}_row[lane] = {combined};", lanes))
        lines.append("}")
    return lines


def _scope(scope: Scope, kernel: ColumnKernel) -> list[str]:
    names = kernel.names
    lines = [statement_text(s, names) for s in scope.before]
    lines += [load_text(a, names) for a in scope.loads]
    return lines + lane_lines(scope.statements, scope.stores, names, kernel.axes.lanes)


def _per_lane(statement: str, lanes: int) -> list[str]:
    return ["#pragma unroll", f"for (int lane = 0; lane < {lanes}; ++lane) {statement}"]


def _identity(total: Accumulator) -> str:
    return total.op.identity.format(t=COMPUTE_TYPES[total.dtype])
