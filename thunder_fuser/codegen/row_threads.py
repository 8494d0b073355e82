"""The rows of a thread, and its part of them, as C++ text.

128 threads a row             part = threadIdx.x, group = blockIdx.x
8 threads a row               part = threadIdx.x % 8, side = threadIdx.x / 8 of the rows of a turn
4 blocks a row                part = rank * 128 + threadIdx.x, group = blockIdx.x / 4
4 of 32 threads, 10 rows      part = rank * 32 + threadIdx.x % 32,
                              group = blockIdx.x / 4 * 10 + threadIdx.x / 32
"""

from __future__ import annotations

from thunder_fuser.codegen.blocks import when
from thunder_fuser.codegen.statements import block_text, form_text, number
from thunder_fuser.codegen.types import index_type
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.target import WARP


def rows_of_thread(kernel: RowKernel) -> list[str]:
    """The rows of the thread, and its part of them. Where fewer rows are left than a block has, the
    last one is done again, so that every thread of a warp takes part in the reductions."""
    kind = index_type(max(kernel.reach, kernel.rows))
    block = block_text(kernel)
    wide = f"({kind}){block}" if kind != "int" else block
    if kernel.cluster > 1:
        count, (own, row) = kernel.rows_per_block, within_block(kernel)
        several = f" * {count} + {row}" if count > 1 else ""
        return [
            f"const int rank = blockIdx.x % {kernel.cluster};",
            f"const int part = rank * {kernel.threads_of_piece} + {own};",
            f"const {kind} group = {wide} / {kernel.cluster}{several};",
        ]
    if kernel.splits > 1:
        splits, share = number(kernel.splits), number(kernel.vectors_per_split)
        row, piece = f"{wide} / {splits}", f"{block} % {splits}"
        if kernel.are_parts_outermost:
            row, piece = f"{wide} % {number(kernel.rows)}", f"{block} / {number(kernel.rows)}"
        begins = "piece" if kernel.has_edges else "first"
        return [
            "const int part = threadIdx.x;",
            f"const {kind} group = {row};",
            f"const int split = {piece};",
            f"const {kind} {begins} = {'' if kind == 'int' else f'({kind})'}split * {share};",
        ]
    if kernel.rows_per_block == 1:
        return ["const int part = threadIdx.x;", f"const {kind} group = {wide};"]
    threads, rows = kernel.threads_per_row, number(kernel.rows)
    if kernel.is_side_by_side:
        return [
            f"const int part = threadIdx.x % {threads};",
            *_sides(kernel, kind),
            f"const {kind} group = {wide};",
        ]
    return [
        f"const int part = threadIdx.x % {threads};",
        f"const {kind} wanted = {wide} * {kernel.rows_per_block} + threadIdx.x / {threads};",
        f"const bool is_active = wanted < {rows};",
        f"const {kind} group = is_active ? wanted : {rows} - 1;",
    ]


def within_block(kernel: RowKernel) -> tuple[str, str]:
    """The number of a thread among those of its block that have its row, and that of the row."""
    threads = kernel.threads_of_piece
    own = "threadIdx.x" if kernel.rows_per_block == 1 else f"threadIdx.x % {threads}"
    return own, f"threadIdx.x / {threads}"


def _sides(kernel: RowKernel, kind: str) -> list[str]:
    """The row of a turn that the thread has; where warps have threads for more, the first again."""
    side = _side_of_thread(kernel)
    if not kernel.has_idle:
        return [f"const {kind} side = {side};"]
    return [
        f"const {kind} wanted = {side};",
        f"const bool is_active = wanted < {kernel.rows_per_block};",
        f"const {kind} side = is_active ? wanted : 0;",
    ]


def _side_of_thread(kernel: RowKernel) -> str:
    """The row of a turn that the thread has: neighbours in a warp are so far apart, and its rows
    between those of the next ones."""
    threads, apart = kernel.threads_per_row, kernel.apart
    if apart == 1:
        return f"threadIdx.x / {threads}"
    warp, own = f"threadIdx.x / {WARP}", f"threadIdx.x % {WARP} / {threads} * {apart}"
    return f"{warp} / {apart} * {WARP // threads * apart} + {own} + {warp} % {apart}"


def turns_text(kernel: RowKernel) -> str:
    """How many turns a group has: a number, or the variable that holds it."""
    return "turns" if kernel.axes.is_uneven else number(kernel.axes.turn.size)


def turns_of_group(kernel: RowKernel) -> list[str]:
    """The turns for which there are rows, if groups differ in that: all blocks of a row have as
    many."""
    if not kernel.axes.is_uneven:
        return []
    axes, kind = kernel.axes, index_type(kernel.reach)
    first_side = {} if axes.side is None else {axes.side: "0"}
    dealt = axes.dealt
    last = form_text(dealt.form, {**kernel.names, axes.turn: "(turns - 1)", **first_side})
    return [
        f"{kind} turns = {number(axes.turn.size)};",
        f"while ({last} >= {number(dealt.extent)}) --turns;",
    ]


def side_of_turn(kernel: RowKernel, known: str = "") -> list[str]:
    """Which row of a turn the thread has, if some turns have fewer than sides: then the first one
    again, so that every thread of a warp takes part in the reductions. Where it is `known` that all
    have theirs, none asks."""
    axes, kind = kernel.axes, index_type(kernel.reach)
    if axes.side is None or not axes.is_ragged:
        return []
    row = form_text(axes.dealt.form, {**kernel.names, axes.side: "wanted"})
    test = f"{known}{row} < {number(axes.dealt.extent)}"
    if kernel.has_idle:
        test = f"wanted < {kernel.rows_per_block} && ({test})"
    return [
        f"const bool is_active = {test};",
        f"const {kind} side = is_active ? wanted : 0;",
    ]


def if_active(kernel: RowKernel, lines: list[str]) -> list[str]:
    """What only threads with a row that is not done again do."""
    has_rest = kernel.axes.is_ragged or kernel.has_idle
    is_whole = kernel.is_side_by_side or kernel.cluster > 1  # no cluster has fewer rows
    has_rest |= kernel.rows_per_block > 1 and not is_whole
    return when(["is_active"] if has_rest else [], lines)
