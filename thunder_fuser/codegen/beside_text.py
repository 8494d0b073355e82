"""Sums over all columns beside columns that are kept, as C++ text: one for each row of a thread."""

from __future__ import annotations

from thunder_fuser.codegen.blocks import block, each, unrolled, when
from thunder_fuser.codegen.split_text import combiner, finished, identity, state_type
from thunder_fuser.codegen.statements import number, scope_lines
from thunder_fuser.codegen.types import COMPUTE_TYPES, index_type
from thunder_fuser.kernel.kept_ir import KeptKernel
from thunder_fuser.kernel.scopes import Accumulator
from thunder_fuser.target import WARP


def sums_beside(kernel: KeptKernel, rows: int) -> list[str]:
    """A sum for each of so many rows of the thread."""
    lines = []
    for total in kernel.beside:
        kind, nothing = state_type(total.op, total.dtype), identity(total.op, total.dtype)
        lines.append(f"{kind} {total.name}_sum[{rows}];")
        lines += _over_held(rows, f"{total.name}_sum[k] = {nothing};")
    return lines


def _over_held(rows: int, statement: str) -> list[str]:
    """For each of a thread's rows, those that it has not among them."""
    return ["#pragma unroll", f"for (int k = 0; k < {rows}; ++k) {statement}"]


def row_of_thread(kernel: KeptKernel, own: str) -> str:
    """Which row one of the block's own rows is."""
    first = f"rank * {number(kernel.rows_per_block)} + " if kernel.cluster > 1 else ""
    return f"const {index_type(kernel.reach)} row = {first}{own};"


def if_row(kernel: KeptKernel, lines: list[str]) -> list[str]:
    """What is done for a row, of which the last block of a cluster may have fewer."""
    has_all = kernel.rows_per_block * kernel.cluster == kernel.axes.row.size
    return when([] if has_all else [f"row < {number(kernel.axes.row.size)}"], lines)


def results_beside(kernel: KeptKernel) -> list[str]:
    """The sums of the threads side by side, brought together and stored by the first of them."""
    if kernel.meets_in_shared:
        return _met_in_shared(kernel)
    across, lines = kernel.threads_across, list[str]()
    for total in kernel.beside:
        met = f"{total.name}_sum[k]"
        if across > 1:
            met = f"tf::warp_reduce<{across}>({met}, {combiner(total.op, total.dtype)})"
        lines.append(known(total, met))
    stores = scope_lines(kernel.results, kernel.names, 1)
    own = f"k * {kernel.threads_down} + part"
    inside = f"{'row' if kernel.cluster == 1 else own} < {number(kernel.rows_per_block)}"
    first = when(["place == 0", inside], if_row(kernel, stores))
    return each("k", kernel.rows_per_thread, [row_of_thread(kernel, own), *lines, *first])


def known(total: Accumulator, met: str) -> str:
    """The value of a sum over columns, of which all parts are `met`."""
    value = finished(total.op, total.dtype, met)
    return f"const {COMPUTE_TYPES[total.dtype]} {total.name}_all = {value};"


def _met_in_shared(kernel: KeptKernel) -> list[str]:
    """The same through shared memory, where the sums of a row lie side by side: by a warp a row."""
    across, warps = kernel.threads_across, kernel.threads // WARP
    lines, met = list[str](), list[str]()
    for total in kernel.beside:
        name, combine = total.name, combiner(total.op, total.dtype)
        place = f"{name}_met[k * {kernel.threads} + threadIdx.x]"
        lines += _over_held(kernel.rows_per_thread, f"{place} = {name}_sum[k];")
        met += [
            f"{state_type(total.op, total.dtype)} {name}_row = {identity(total.op, total.dtype)};",
            *unrolled(
                f"for (int n = threadIdx.x % {WARP}; n < {across}; n += {WARP})",
                [f"{name}_row = {combine}({name}_row, {name}_met[own * {across} + n]);"],
            ),
            known(total, f"tf::warp_reduce<{WARP}>({name}_row, {combine})"),
        ]
    stores = scope_lines(kernel.results, kernel.names, 1)
    rows = number(kernel.rows_per_block)
    body = [row_of_thread(kernel, "own"), *met]
    body += when([f"threadIdx.x % {WARP} == 0"], if_row(kernel, stores))
    loop = block(f"for (int own = threadIdx.x / {WARP}; own < {rows}; own += {warps})", body)
    if kernel.threads % WARP:  # the last warp is none
        loop = when([f"threadIdx.x < {warps * WARP}"], loop)
    return [*lines, "__syncthreads();", *loop]
