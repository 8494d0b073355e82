"""The row kernel's body as C++ text."""

from __future__ import annotations

from thunder_fuser.codegen.statements import (
    INT_LIMIT,
    indent,
    load_call,
    load_text,
    number,
    statement_text,
    store_text,
    vector_type,
)
from thunder_fuser.codegen.types import COMPUTE_TYPES, CUDA_TYPES
from thunder_fuser.kernel.row_ir import Accumulator, Reduce, ReducePhase, RowKernel, Scan, Scope
from thunder_fuser.ops import OpDef

WARP = 32


def row_lines(kernel: RowKernel) -> list[str]:
    """The statements of the entry point."""
    if not kernel.sums:
        start = [*_rows(kernel), *_located(kernel, "turn"), *_declare(kernel, 0)]
        return [*start, *_fill(kernel, 0, "turn"), *_row(kernel)]
    turns, last = number(kernel.axes.turn.size), kernel.ahead
    started = [_fill(kernel, k, str(k)) for k in range(last)]
    turn = [
        f"if (turn + {last} < {turns}) {{",
        *indent(_fill(kernel, last, f"(turn + {last})")),
        "}",
        *_located(kernel, "turn"),
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
        *_scope(kernel.columns, kernel),
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
    lines = _vectors(kernel, loads) if loads else []
    if not (kernel.located and loads and kernel.sums):
        return lines
    return ["{", *indent([*_located(kernel, turn), *lines]), "}"]


def _located(kernel: RowKernel, turn: str) -> list[str]:
    """The indices that tensors hold for the row of that turn."""
    names = {**kernel.names, kernel.axes.turn: turn}
    return [statement_text(s, names) for s in kernel.located]


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


def _zeroed(accumulator: Accumulator | Scan, kernel: RowKernel) -> list[str]:
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
    lines += _active(kernel, _scope(kernel.final, kernel))
    if kernel.single.statements:
        names = kernel.names
        text = [statement_text(s, names) for s in kernel.single.statements]
        text = [*_declared(kernel.single), *text]
        text += [store_text(a, names) for a in kernel.single.stores]
        lines += _active(kernel, ["if (part == 0) {", *indent(text), "}"])
    return lines


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
    if not kernel.is_held:
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


def _scope(scope: Scope, kernel: RowKernel) -> list[str]:
    if not scope.statements:
        return []
    names = kernel.names
    lines = [load_text(a, names) for a in scope.loads]
    lines += _declared(scope)
    statements = [statement_text(s, names) for s in scope.statements]
    if kernel.lane is not None:
        head = f"for (int lane = 0; lane < {kernel.lanes}; ++lane) {{"
        statements = ["#pragma unroll", head, *indent(statements), "}"]
    lines += statements
    lines += [store_text(a, names) for a in scope.stores]
    return _vectors(kernel, lines)


def _declared(scope: Scope) -> list[str]:
    vectors = {a.name: vector_type(a) for a in scope.stores}
    return [f"{kind} {name};" for name, kind in vectors.items()]


def _phase(phase: ReducePhase, kernel: RowKernel) -> list[str]:
    lines = []
    for reduction in phase.reductions:
        kind = COMPUTE_TYPES[reduction.accumulator.dtype]
        identity = reduction.op.identity.format(t=kind)
        lines.append(f"{kind} {reduction.accumulator.name} = {identity};")
    lines += [line for scan in phase.scans for line in _zeroed(scan, kernel)]
    lines += _scope(phase.scope, kernel)
    width = min(kernel.threads_per_row, WARP)
    warps = kernel.threads_per_row // WARP
    shares = kernel.threads > kernel.threads_per_row  # a block holds several rows
    own = f" + threadIdx.x / {kernel.threads_per_row} * {warps}" if shares else ""
    # Two sets of partial results by turns: a warp that is a row ahead writes into the other one.
    sets, which = ("[2]", "[turn % 2]") if kernel.sums else ("", "")
    for reduction in phase.reductions:
        name = reduction.accumulator.name
        lines.append(f"{name} = tf::warp_reduce<{width}>({name}, {_combine(reduction)});")
    if warps > 1 and phase.reductions:
        for reduction in phase.reductions:
            name, kind = reduction.accumulator.name, COMPUTE_TYPES[reduction.accumulator.dtype]
            lines.append(f"__shared__ {kind} {name}s{sets}[{kernel.threads // WARP}];")
            lines.append(f"if (part % {WARP} == 0) {name}s{which}[threadIdx.x / {WARP}] = {name};")
        lines.append("__syncthreads();")
    for reduction in phase.reductions:
        name, kind = reduction.accumulator.name, COMPUTE_TYPES[reduction.accumulator.dtype]
        combined = f"tf::combine_warps<{warps}>({name}s{which}{own}, {_combine(reduction)})"
        value = combined if warps > 1 else name
        if reduction.rounded is not None:
            value = f"tf::round_to<{CUDA_TYPES[reduction.rounded]}>({value})"
        lines.append(f"const {kind} {reduction.result.name} = {value};")
    return lines + [line for scan in phase.scans for line in _scan(scan, kernel)]


def _scan(scan: Scan, kernel: RowKernel) -> list[str]:
    """Every element of the row combined with those before it; warps hand their sums on through
    shared memory."""
    kind, name = COMPUTE_TYPES[scan.dtype], scan.name
    threads, held = kernel.threads_per_row, kernel.vectors_per_thread
    sums, lines = f"static_cast<{kind}*>(nullptr)", list[str]()
    if threads > WARP:
        count = held * threads // WARP
        lines.append(f"__shared__ {kind} {name}_sums[{kernel.rows_per_block * count}];")
        row = f" + threadIdx.x / {threads} * {count}" if kernel.rows_per_block > 1 else ""
        sums = f"{name}_sums{row}"
    direction = "true" if scan.reverse else "false"
    identity = scan.op.identity.format(t=kind)
    call = f"tf::scan_row<{threads}, {direction}>"
    lines.append(f"{call}({name}, {sums}, part, {identity}, {_combining(scan.op, kind)});")
    if scan.rounded is not None:
        rounded = f"tf::round_to<{CUDA_TYPES[scan.rounded]}>({name}[k][lane])"
        lines += [
            "#pragma unroll",
            f"for (int k = 0; k < {held}; ++k)",
            "#pragma unroll",
            f"  for (int lane = 0; lane < {kernel.lanes}; ++lane) {name}[k][lane] = {rounded};",
        ]
    return lines


def _combine(reduction: Reduce) -> str:
    return _combining(reduction.op, COMPUTE_TYPES[reduction.accumulator.dtype])


def _combining(op: OpDef, kind: str) -> str:
    body = op.combine.format("a", "b", t=kind)
    return f"[]({kind} a, {kind} b) -> {kind} {{ return {body}; }}"
