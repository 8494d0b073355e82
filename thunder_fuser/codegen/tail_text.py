"""What the last block of a launch does behind all rows, as C++ text."""

from __future__ import annotations

from dataclasses import replace

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.codegen.reduce_text import combined, declared
from thunder_fuser.codegen.split_text import workspace_array
from thunder_fuser.codegen.statements import indent, lane_lines, number
from thunder_fuser.codegen.types import COMPUTE_TYPES
from thunder_fuser.kernel.row_ir import Reduce, RowKernel, Tail
from thunder_fuser.kernel.split_ir import TICKETS, rows_left, ticket_of_tail

UNROLL = 8  # rows of a thread whose terms are on their way together


def with_tail(lines: list[str], kernel: RowKernel) -> list[str]:
    """The statements of rows with those of the tail around them, if there is one."""
    if kernel.tail is None:
        return lines
    return [*_left(kernel, kernel.tail), *lines, *_last(kernel, kernel.tail)]


def _left(kernel: RowKernel, tail: Tail) -> list[str]:
    """The arrays that rows leave their terms in."""
    return [
        workspace_array(Tail.left(total), COMPUTE_TYPES[total.accumulator.dtype], start)
        for total, start in zip(tail.totals, rows_left(kernel), strict=False)
    ]


def _last(kernel: RowKernel, tail: Tail) -> list[str]:
    """The block that comes last goes on, all its threads with terms of all rows."""
    ticket, blocks = ticket_of_tail(kernel), ceil_div(kernel.rows, kernel.rows_per_block)
    address = f"{TICKETS} + {number(ticket)}" if ticket else TICKETS
    alone = replace(
        kernel, threads_per_row=kernel.threads, rows_per_block=1, cluster=1, splits=1, tail=None
    )
    rest = [
        *declared(tail.totals),
        f"#pragma unroll {UNROLL}",
        f"for (int row = part; row < {number(kernel.rows)}; row += {kernel.threads}) {{",
        *indent([_step(total) for total in tail.totals]),
        "}",
        *combined(tail.totals, alone),
        "if (part == 0) {",
        *indent(lane_lines(tail.scope.statements, tail.scope.stores, kernel.names, lanes=1)),
        "}",
    ]
    if kernel.rows_per_block > 1:
        rest = ["{", *indent(["const int part = threadIdx.x;", *rest]), "}"]
    return [
        *(["if (rank != 0) return;"] if kernel.cluster > 1 else []),
        "__shared__ bool is_end;",
        f"if (!tf::is_last(is_end, {address}, {number(blocks)})) return;",
        *rest,
    ]


def _step(total: Reduce) -> str:
    """One more term in the thread's state."""
    name, kind = total.accumulator.name, COMPUTE_TYPES[total.accumulator.dtype]
    step = total.op.step or total.op.combine
    return f"{name} = {step.format(name, f'{Tail.left(total)}[row]', t=kind)};"
