"""Rows that a block walks side by side, as C++ text: their turns, and their sums when they meet."""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.codegen.blocks import block, each, function, per_element, unrolled, when
from thunder_fuser.codegen.row_threads import turns_text
from thunder_fuser.codegen.split_text import combiner, combining, state_type
from thunder_fuser.codegen.statements import WHOLE, load_call, vector_type
from thunder_fuser.codegen.types import index_type
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.kernel.scopes import Accumulator
from thunder_fuser.kernel.statements import VectorAccess
from thunder_fuser.target import WARP


def turns_of_sides(kernel: RowKernel, loads: Sequence[str], row: Sequence[str]) -> list[str]:
    """A loop over the turns, those of a batch unrolled. The `loads` of turn b fill `name_turns[b]`,
    all before the first `row` is worked on. Of uneven deals all batches but the last one are told
    that every thread has its rows, and memory goes on behind them: no thread asks."""
    batch, turns = kernel.batch, turns_text(kernel)
    kind, is_uneven = index_type(kernel.reach), kernel.axes.is_uneven
    loaded = [*kernel.kept, *kernel.once]
    alone = [f"{a.name}_turns[b] = {load_call(a, kernel.names)};" for a in kernel.once]
    kept = "auto&" if kernel.renews else "const auto&"
    named = [f"{kept} {a.name} = {a.name}_turns[b];" for a in loaded]

    def of_batch(lines: Sequence[str]) -> list[str]:
        is_cut = batch > 1 and (is_uneven or kernel.axes.turn.size % batch)
        known = f"{WHOLE} || " if is_uneven else ""
        inner = when([f"{known}turn < {turns}"] if is_cut else [], lines)
        return each("b", batch, [f"const {kind} turn = first + b;", *inner])

    body = [
        *(f"{vector_type(a)} {a.name}_turns[{batch}]{_held(a, kernel)};" for a in loaded),
        *of_batch([*loads, *alone]),
        *of_batch([*named, *row]),
    ]
    if not is_uneven:
        return unrolled(f"for (int first = 0; first < {turns}; first += {batch})", body, 1)
    return [
        *function("walk", ["const int first", f"const auto {WHOLE}"], body),
        "int first = 0;",
        "#pragma unroll 1",
        f"for (; first + {batch} < {turns}; first += {batch}) walk(first, tf::Yes{{}});",
        "walk(first, tf::No{});",
    ]


def _held(access: VectorAccess, kernel: RowKernel) -> str:
    return f"[{kernel.vectors_per_thread}]" if access in kernel.kept else ""


def met_sides(kernel: RowKernel, columns: Sequence[str]) -> list[str]:
    """The sums of all rows side by side in the threads of the first one, in the order of threads of
    a warp and of warps, by way of the dynamic shared memory, and what these do with them."""
    lines: list[str] = []
    for position, accumulator in enumerate(kernel.in_registers):
        lines += ["__syncthreads();"] if position else []
        lines += _met(accumulator, kernel)
    return [*lines, *when(["side == 0"], columns)]


def _met(accumulator: Accumulator, kernel: RowKernel) -> list[str]:
    op, dtype, threads = accumulator.op, accumulator.dtype, kernel.threads_per_row
    kind, held, lanes = state_type(op, dtype), kernel.vectors_per_thread, kernel.lanes
    own, left = f"{accumulator.name}[k][lane]", f"{accumulator.name}s"
    meeting = kernel.threads_that_meet

    def of_meeting(number: str) -> str:
        return f"{left}[(({number} * {held} + k) * {lanes} + lane) * {threads} + part]"

    folded = f"{own} = tf::combine_sides<{threads}>({own}, {combiner(op, dtype)});"
    taken = f"{own} = {combining(op, dtype, own, of_meeting('other'))};"
    leave = per_element(f"{of_meeting(f'threadIdx.x / {meeting}')} = {own};", held, lanes)
    if threads < WARP:
        leave = when([f"threadIdx.x % {WARP} < {threads}"], leave)
        leave = [*per_element(folded, held, lanes), *leave]
    head = f"for (int other = 1; other < {kernel.threads // meeting}; ++other)"
    return [
        f"{kind}* const {left} = reinterpret_cast<{kind}*>(shared);",
        *leave,
        "__syncthreads();",
        *when(["side == 0"], block(head, per_element(taken, held, lanes))),
    ]
