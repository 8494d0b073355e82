"""Rows that a block walks side by side, as C++ text: their turns, and their sums when they meet."""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.codegen.row_threads import turns_text
from thunder_fuser.codegen.split_text import combining, state_type
from thunder_fuser.codegen.statements import WHOLE, indent, load_call, vector_type
from thunder_fuser.codegen.types import index_type
from thunder_fuser.kernel.row_ir import Accumulator, RowKernel
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
    named = [f"const auto& {a.name} = {a.name}_turns[b];" for a in loaded]

    def of_batch(lines: Sequence[str]) -> list[str]:
        inner = list(lines)
        if batch > 1 and (is_uneven or kernel.axes.turn.size % batch):
            known = f"{WHOLE} || " if is_uneven else ""
            inner = [f"if ({known}turn < {turns}) {{", *indent(inner), "}"]
        head = f"for (int b = 0; b < {batch}; ++b) {{"
        return ["#pragma unroll", head, *indent([f"const {kind} turn = first + b;", *inner]), "}"]

    body = [
        *(f"{vector_type(a)} {a.name}_turns[{batch}]{_held(a, kernel)};" for a in loaded),
        *of_batch([*loads, *alone]),
        *of_batch([*named, *row]),
    ]
    if not is_uneven:
        head = f"for (int first = 0; first < {turns}; first += {batch}) {{"
        return ["#pragma unroll 1", head, *indent(body), "}"]
    return [
        f"const auto walk = [&](const int first, const auto {WHOLE}) {{",
        *indent(body),
        "};",
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
    for position, accumulator in enumerate(kernel.sums):
        lines += ["__syncthreads();"] if position else []
        lines += _met(accumulator, kernel)
    return [*lines, "if (side == 0) {", *indent(list(columns)), "}"]


def _met(accumulator: Accumulator, kernel: RowKernel) -> list[str]:
    op, dtype, threads = accumulator.op, accumulator.dtype, kernel.threads_per_row
    kind, held, lanes = state_type(op, dtype), kernel.vectors_per_thread, kernel.lanes
    own, left = f"{accumulator.name}[k][lane]", f"{accumulator.name}s"
    combine = f"[]({kind} a, {kind} b) -> {kind} {{ return {combining(op, dtype, 'a', 'b')}; }}"

    def over_sums(line: str) -> list[str]:
        return [
            "#pragma unroll",
            f"for (int k = 0; k < {held}; ++k)",
            "#pragma unroll",
            f"  for (int lane = 0; lane < {lanes}; ++lane) {line}",
        ]

    meeting = kernel.threads_that_meet

    def of_meeting(number: str) -> str:
        return f"{left}[(({number} * {held} + k) * {lanes} + lane) * {threads} + part]"

    folded = f"{own} = tf::combine_sides<{threads}>({own}, {combine});"
    taken = f"{own} = {combining(op, dtype, own, of_meeting('other'))};"
    leave = over_sums(f"{of_meeting(f'threadIdx.x / {meeting}')} = {own};")
    if threads < WARP:
        leave = [
            *over_sums(folded),
            f"if (threadIdx.x % {WARP} < {threads}) {{",
            *indent(leave),
            "}",
        ]
    return [
        f"{kind}* const {left} = reinterpret_cast<{kind}*>(shared);",
        *leave,
        "__syncthreads();",
        "if (side == 0) {",
        f"  for (int other = 1; other < {kernel.threads // meeting}; ++other) {{",
        *indent(indent(over_sums(taken))),
        "  }",
        "}",
    ]
