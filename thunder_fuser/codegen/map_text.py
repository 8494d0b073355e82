"""The map kernel's body as C++ text: block ranges, turns, indices, one body after another."""

from __future__ import annotations

from collections.abc import Mapping

from thunder_fuser.analysis.carries import Carry, carry_of
from thunder_fuser.codegen.blocks import enclosed, when
from thunder_fuser.codegen.statements import (
    LEFT,
    Crossed,
    block_text,
    counted,
    form_text,
    lane_lines,
    load_text,
    number,
    statement_text,
    window_text,
)
from thunder_fuser.codegen.tile_text import tile_lines
from thunder_fuser.codegen.types import index_type
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.kernel.map_ir import BlockRange, Body, Kernel


def map_lines(kernel: Kernel) -> list[str]:
    """The statements of the entry point."""
    return [line for blocks in kernel.ranges for line in _range(blocks, kernel)]


def _range(blocks: BlockRange, kernel: Kernel) -> list[str]:
    """A group of bodies behind the test of its block range."""
    lines, start = [], 0
    if len(blocks.bodies) > 1:
        own = _own_block(blocks, kernel)
        lines.append(f"const int round = {own} / {counted(blocks.length)};")
        lines.append(f"const int turn = {own} % {counted(blocks.length)};")
    for body, count in zip(blocks.bodies, blocks.counts, strict=True):
        text = _body(
            body, _block(blocks, start, count, kernel), blocks.rounds * count, kernel.threads
        )
        start += count
        if start < blocks.length:
            lines += when([f"turn < {counted(start)}"], [*text, "return;"])
        else:
            lines += enclosed(text) if len(blocks.bodies) > 1 else text
    if len(kernel.groups) == 1:
        return lines
    if blocks.end < kernel.blocks:
        return when([f"{block_text(kernel)} < {counted(blocks.end)}"], [*lines, "return;"])
    return enclosed(lines)


def _block(blocks: BlockRange, start: int, count: int, kernel: Kernel) -> str:
    """The number of a body's block among all its blocks."""
    if len(blocks.bodies) > 1:
        return f"(round * {counted(count)} + {_behind('turn', start)})"
    return _own_block(blocks, kernel)


def _own_block(blocks: BlockRange, kernel: Kernel) -> str:
    """The number of a block in its range."""
    return _behind(block_text(kernel), blocks.start)


def _behind(number: str, start: int) -> str:
    """A number counted from `start`, of which the compiler does not know that. NVRTC 13.0 takes
    addresses of one stride for each other's neighbours, by the difference of `start * stride` in
    both, and forgets that these products wrap: what it stored lay 32 GB away."""
    return f"tf::settled(int({number} - {counted(start)}))" if start else number


def _body(body: Body, block: str, blocks: int, threads: int) -> list[str]:
    if body.turning is not None:
        return tile_lines(body, body.turning, block, threads)
    lines, names = _thread_index(body, block, blocks, threads), body.names
    if body.inside is not None:
        window, straight = body.inside
        lines += when([window_text(window, names)], [*_work(straight), "return;"])
    return [*lines, *_work(body)]


def _work(body: Body) -> list[str]:
    """What the thread of known indices does. Its rows may begin where a tensor says."""
    row, before = _crossed_row(body), [statement_text(s, body.names) for s in body.before]
    if body.lane is not None and row is not None:
        names = Crossed(body.names, body.lane)
        left = f"const int {LEFT} = {number(row.modulus)} - {form_text(row.place, body.names)};"
        lines = _loads_and_lanes(body, names)
        return [*before, left, *names.lines(), *lines]
    return [*before, *_loads_and_lanes(body, body.names)]


def _loads_and_lanes(body: Body, names: Mapping[IterDomain, str]) -> list[str]:
    loads = [load_text(a, names) for a in body.loads]
    once = [statement_text(s, names) for s in body.once]
    return [*loads, *once, *lane_lines(body.statements, body.stores, names, body.lanes)]


def _thread_index(body: Body, block: str, blocks: int, threads: int) -> list[str]:
    """The parallel axes' indices from the thread's number within the body, innermost fastest."""
    reach = [form.reach for form in body.forms]
    kind = index_type(max([blocks * threads, *reach]))
    wide = f"({kind}){block}" if kind != "int" else block
    lines = [f"const {kind} thread = {wide} * {threads} + threadIdx.x;"]
    lines.append(f"if (thread >= {counted(body.threads)}) return;")
    rest = "thread"
    for position in range(len(body.axes) - 1, -1, -1):
        axis, name = body.axes[position], f"i{position}"
        if position == 0:
            lines.append(f"const {kind} {name} = {rest};")
            if _divides_lanes(body):
                lines.append(f"tf::not_negative({name});")
        else:
            size = number(axis.size)
            lines.append(f"const {kind} {name} = {rest} % {size};")
            rest = f"{rest} / {size}"
    return lines


def _divides_lanes(body: Body) -> bool:
    """True where each lane is told apart by its place, in divisions that cost less of what is known
    not to be negative."""
    return any(load.lane is not None for load in body.loads)


def _crossed_row(body: Body) -> Carry | None:
    """The rows of which lanes come to one end at most, where each lane is told apart by its place:
    it is before that end or behind it."""
    if body.lane is None or not _divides_lanes(body):
        return None
    row = carry_of(body.own_forms, body.lane)
    return row if row is not None and row.modulus >= body.lanes else None
