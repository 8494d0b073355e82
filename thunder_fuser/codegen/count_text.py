"""Values of rows that a block counts in shared memory, as C++ text.

    __shared__ int T13_part_counts[4096];                       0, before the rows
    tf::count<8>(T13_part_counts + .., T24_0 - (8 * vector))    of each vector of a row
    T13_part[k][lane] = T13_part_counts[..]                     behind them

The thread adds 1 that has the column; integers have no order.
"""

from __future__ import annotations

from thunder_fuser.codegen.blocks import per_element, unrolled
from thunder_fuser.codegen.row_threads import within_block
from thunder_fuser.codegen.statements import form_text
from thunder_fuser.codegen.types import COMPUTE_TYPES
from thunder_fuser.codegen.values import operand
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.kernel.scopes import Count


def begun_counts(kernel: RowKernel) -> list[str]:
    """The arrays, which hold 0."""
    lines, size = list[str](), _size(kernel)
    for accumulator in kernel.sums:
        if accumulator.is_count:
            head = f"for (int place = threadIdx.x; place < {size}; place += {kernel.threads})"
            lines.append(f"__shared__ int {accumulator.counts}[{size}];")
            lines += unrolled(head, [f"{accumulator.counts}[place] = 0;"], 1)
    return [*lines, "__syncthreads();"] if lines else []


def counted(count: Count, kernel: RowKernel) -> str:
    """A vector's part of it."""
    lane = f"{operand(count.value)} - ({form_text(count.first, kernel.names)})"
    return f"tf::count<{kernel.lanes}>({count.name} + {_place(kernel)}, {lane});"


def ended_counts(kernel: RowKernel) -> list[str]:
    """What each thread's columns came to."""
    lines, held = list[str](), kernel.vectors_per_thread
    for accumulator in kernel.sums:
        if accumulator.is_count:
            kind = COMPUTE_TYPES[accumulator.dtype]
            taken = f"static_cast<{kind}>({accumulator.counts}[{_place(kernel)} + lane])"
            lines.append(f"{kind} {accumulator.name}[{held}][{kernel.lanes}];")
            lines += per_element(f"{accumulator.name}[k][lane] = {taken};", held, kernel.lanes)
    return ["__syncthreads();", *lines] if lines else []


def _size(kernel: RowKernel) -> int:
    return kernel.vectors_per_thread * kernel.threads_of_piece * kernel.lanes


def _place(kernel: RowKernel) -> str:
    """Of the first lane of a thread's vector k, among all that the block has of a row."""
    own = "part" if kernel.is_side_by_side else within_block(kernel)[0]
    return f"(k * {kernel.threads_of_piece} + {own}) * {kernel.lanes}"
