"""The row kernel's body as C++ text."""

from __future__ import annotations

from thunder_fuser.codegen.reduce_text import combined, declared
from thunder_fuser.codegen.statements import (
    indent,
    load_call,
    load_text,
    number,
    statement_text,
    store_text,
    vector_type,
)
from thunder_fuser.codegen.types import COMPUTE_TYPES, INT_LIMIT
from thunder_fuser.kernel.row_ir import Accumulator, ReducePhase, RowKernel, Scope


def row_lines(kernel: RowKernel) -> list[str]:
    """The statements of the entry point."""
    if not kernel.sums:
        return [*_rows(kernel), *_declare(kernel, 0), *_fill(kernel, 0, "turn"), *_row(kernel)]
    turns, last = number(kernel.axes.turn.size), kernel.ahead
    started = [_fill(kernel, k, str(k)) for k in range(last)]
    turn = [
        f"if (turn + {last} < {turns}) {{",
        *indent(_fill(kernel, last, f"(turn + {last})")),
        "}",
        *_row(kernel),
        *_advance(kernel),
    ]
    return [
        *_rows(kernel),
        *(line for accumulator in kernel.sums for line in _zeroed(accumulator, kernel)),
        *(line for k in range(last + 1) for line in _declare(kernel, k)),
        *(line for lines in started for line in lines),
        f"for (int turn = 0; turn < {turns}; ++turn) {{",
        *indent(turn),
        "}",
        *_walked(kernel.columns, kernel),
    ]


def _buffer(name: str, ahead: int) -> str:
    """The registers of the row `ahead` turns from now."""
    return f"{name}_{ahead}" if ahead else name


def _declare(kernel: RowKernel, ahead: int) -> list[str]:
    held = kernel.vectors_per_thread
    return [f"{vector_type(a)} {_buffer(a.name, ahead)}[{held}];" for a in kernel.kept]


def _fill(kernel: RowKernel, ahead: int, turn: str) -> list[str]:
    """Load the vectors of the row of that turn. With column sums the next rows are on their way
    while one is worked on."""
    names = {**kernel.names, kernel.axes.turn: turn}
    loads = [f"{_buffer(a.name, ahead)}[k] = {load_call(a, names)};" for a in kernel.kept]
    return _vectors(kernel, loads) if loads else []


def _advance(kernel: RowKernel) -> list[str]:
    """Every row on its way is one turn nearer."""
    moves = [
        f"{_buffer(a.name, k)}[k] = {_buffer(a.name, k + 1)}[k];"
        for k in range(kernel.ahead)
        for a in kernel.kept
    ]
    if not moves:
        return []
    head = f"for (int k = 0; k < {kernel.vectors_per_thread}; ++k) {{"
    return ["#pragma unroll", head, *indent(moves), "}"]


def _zeroed(accumulator: Accumulator, kernel: RowKernel) -> list[str]:
    kind = COMPUTE_TYPES[accumulator.dtype]
    identity = accumulator.op.identity.format(t=kind)
    held, lanes = kernel.vectors_per_thread, kernel.lanes
    return [
        f"{kind} {accumulator.name}[{held}][{lanes}];",
        "#pragma unroll",
        f"for (int k = 0; k < {held}; ++k)",
        "#pragma unroll",
        f"  for (int lane = 0; lane < {lanes}; ++lane) {accumulator.name}[k][lane] = {identity};",
    ]


def _row(kernel: RowKernel) -> list[str]:
    """What is done for one row."""
    lines = [load_text(a, kernel.names) for a in kernel.once]
    for phase in kernel.phases:
        lines += _phase(phase, kernel)
    lines += _active(kernel, _walked(kernel.final, kernel))
    return lines + _active(kernel, single_lines(kernel))


def single_lines(kernel: RowKernel) -> list[str]:
    """What the first thread of a row does after the phases."""
    if not kernel.single.statements:
        return []
    names = kernel.names
    text = [
        *_declared(kernel.single),
        *(statement_text(s, names) for s in kernel.single.statements),
    ]
    text += [store_text(a, names) for a in kernel.single.stores]
    return ["if (part == 0) {", *indent(text), "}"]


def _rows(kernel: RowKernel) -> list[str]:
    """The rows of the thread, and its part of them. Where fewer rows are left than a block has, the
    last one is done again, so that every thread of a warp takes part in the reductions."""
    kind = "long long" if max(kernel.reach, kernel.rows) >= INT_LIMIT else "int"
    wide = f"({kind})blockIdx.x" if kind != "int" else "blockIdx.x"
    if kernel.rows_per_block == 1:
        return ["const int part = threadIdx.x;", f"const {kind} group = {wide};"]
    threads, rows = kernel.threads_per_row, number(kernel.rows)
    return [
        f"const int part = threadIdx.x % {threads};",
        f"const {kind} wanted = {wide} * {kernel.rows_per_block} + threadIdx.x / {threads};",
        f"const bool is_active = wanted < {rows};",
        f"const {kind} group = is_active ? wanted : {rows} - 1;",
    ]


def _active(kernel: RowKernel, lines: list[str]) -> list[str]:
    if kernel.rows_per_block == 1 or not lines:
        return lines
    return ["if (is_active) {", *indent(lines), "}"]


def _vectors(kernel: RowKernel, lines: list[str]) -> list[str]:
    """A loop over the thread's vectors of the row; unrolled where they are kept in registers."""
    threads = kernel.threads_per_row
    if not kernel.kept:
        head = (
            f"for (int vector = part; vector < {number(kernel.vector.size)}; vector += {threads})"
        )
        return [f"{head} {{", *indent(lines), "}"]
    inner = [f"const int vector = k * {threads} + part;", *lines]
    if kernel.vector.size % threads:
        test = f"if (vector < {number(kernel.vector.size)}) {{"
        inner = [inner[0], test, *indent(lines), "}"]
    head = f"for (int k = 0; k < {kernel.vectors_per_thread}; ++k) {{"
    return ["#pragma unroll", head, *indent(inner), "}"]


def scope_lines(scope: Scope, kernel: RowKernel) -> list[str]:
    """What is done for one vector."""
    if not scope.statements:
        return []
    names = kernel.names
    lines = [load_text(a, names) for a in scope.loads]
    lines += _declared(scope)
    statements = [statement_text(s, names) for s in scope.statements]
    if kernel.lane is not None:
        head = f"for (int lane = 0; lane < {kernel.lanes}; ++lane) {{"
        statements = ["#pragma unroll", head, *indent(statements), "}"]
    return [*lines, *statements, *(store_text(a, names) for a in scope.stores)]


def _walked(scope: Scope, kernel: RowKernel) -> list[str]:
    lines = scope_lines(scope, kernel)
    return _vectors(kernel, lines) if lines else []


def _declared(scope: Scope) -> list[str]:
    vectors = {a.name: vector_type(a) for a in scope.stores}
    return [f"{kind} {name};" for name, kind in vectors.items()]


def _phase(phase: ReducePhase, kernel: RowKernel) -> list[str]:
    walked = _walked(phase.scope, kernel)
    return [*declared(phase.reductions), *walked, *combined(phase.reductions, kernel)]
