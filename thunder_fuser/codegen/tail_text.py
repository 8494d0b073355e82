"""What the last blocks of a launch do behind their rows, as C++ text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.codegen.blocks import block, each, enclosed, when
from thunder_fuser.codegen.reduce_text import combined, declared
from thunder_fuser.codegen.split_text import identity, state_type, workspace_array
from thunder_fuser.codegen.statements import block_text, lane_lines, number
from thunder_fuser.codegen.types import COMPUTE_TYPES
from thunder_fuser.dtypes import DataType
from thunder_fuser.kernel.row_ir import Reduce, RowKernel, Tail
from thunder_fuser.kernel.split_ir import (
    TICKETS,
    Bundles,
    bundles_left,
    bundles_of,
    rows_left,
    ticket_of_tail,
)
from thunder_fuser.target import WARP

MAX_IN_FLIGHT = 8  # values of each total that a thread loads before it combines them


@dataclass(frozen=True)
class _Left:
    """What rows or bundles left for a total: `array`, of values of type `kind`. `step` makes one of
    them part of a state."""

    total: Reduce
    array: str
    kind: str
    step: str

    @property
    def state(self) -> str:
        """The variable of a thread."""
        return self.total.accumulator.name


def with_tail(lines: list[str], kernel: RowKernel) -> list[str]:
    """The statements of rows with those of the tail around them, if there is one."""
    if kernel.tail is None:
        return lines
    arrays = _arrays(_by_rows(kernel.tail), rows_left(kernel))
    return [*arrays, *lines, *_behind(kernel, kernel.tail)]


def _by_rows(tail: Tail) -> list[_Left]:
    found = []
    for total in tail.totals:
        kind, step = COMPUTE_TYPES[total.accumulator.dtype], total.op.step or total.op.combine
        found.append(_Left(total, Tail.left(total), kind, step))
    return found


def _by_bundles(tail: Tail) -> list[_Left]:
    found = []
    for total in tail.totals:
        array, kind = f"{total.accumulator.name}_of_bundle", state_type(total.op, _dtype(total))
        found.append(_Left(total, array, kind, total.op.combine))
    return found


def _dtype(total: Reduce) -> DataType:
    return total.accumulator.dtype


def _arrays(found: Sequence[_Left], starts: Sequence[int]) -> list[str]:
    return [workspace_array(x.array, x.kind, at) for x, at in zip(found, starts, strict=False)]


def _behind(kernel: RowKernel, tail: Tail) -> list[str]:
    """The block that is the last of its bundle goes on, and of those the last of all: one warp of
    it, so that no other waits."""
    bundles, several = bundles_of(kernel), kernel.rows_per_block
    size, rows = number(bundles.size), number(kernel.rows)
    place = f"{block_text(kernel)} * {several}" if several > 1 else "group"
    blocks = f"(end - begin + {several - 1}) / {several}" if several > 1 else "end - begin"
    scope = lane_lines(tail.scope.statements, tail.scope.stores, kernel.names, lanes=1)
    lines = [
        "const int part = threadIdx.x;",
        f"const int bundle = {place} / {size};",
        f"const int begin = bundle * {size};",
        f"const int end = begin + {size} < {rows} ? begin + {size} : {rows};",
        _unless_last(_ticket(ticket_of_tail(kernel), "bundle"), blocks),
        *declared(tail.totals),
        *_walked(_by_rows(tail), "begin", "end", bundles),
        *when([f"{number(bundles.count)} > 1"], _over_bundles(kernel, tail)),
        *combined(tail.totals, _one_warp(kernel)),
        *when(["part == 0"], scope),
    ]
    return [
        *(["if (rank != 0) return;"] if kernel.cluster > 1 else []),
        *(["__syncthreads();"] if several > 1 else []),  # rows of other warps have left theirs
        f"if (threadIdx.x >= {WARP}) return;",
        *enclosed(lines),
    ]


def _over_bundles(kernel: RowKernel, tail: Tail) -> list[str]:
    """What the rows of a bundle came to, left for the warp that is the last of all. That goes on
    with the states of all bundles."""
    found, count = _by_bundles(tail), bundles_of(kernel).count
    stores = [f"{left.array}[bundle] = {left.total.result.name};" for left in found]
    whole = combined(tail.totals, _one_warp(kernel), are_finished=False)
    return [
        *_arrays(found, bundles_left(kernel)),
        *enclosed([*whole, *when(["part == 0"], stores)]),
        _unless_last(_ticket(ticket_of_tail(kernel), number(count)), number(count)),
        *(f"{left.state} = {identity(left.total.op, _dtype(left.total))};" for left in found),
        *_walked(found, "0", number(count), bundles_of(kernel)),
    ]


def _one_warp(kernel: RowKernel) -> RowKernel:
    """As if a row had one warp, alone in a block."""
    return replace(kernel, threads_per_row=WARP, rows_per_block=1, cluster=1, splits=1, tail=None)


def _ticket(first: int, which: str) -> str:
    return f"{TICKETS} + {number(first)} + {which}" if first else f"{TICKETS} + {which}"


def _unless_last(ticket: str, count: str) -> str:
    return f"if (!tf::is_last_warp({ticket}, {count})) return;"


def _walked(found: Sequence[_Left], begin: str, end: str, bundles: Bundles) -> list[str]:
    """What was left from `begin` to `end` in the states of a warp: a thread combines what lies a
    warp apart, in order. Its loads stand before what waits for them."""
    batch = min(ceil_div(bundles.size, WARP), MAX_IN_FLIGHT)

    def of_batch(lines: Sequence[str]) -> list[str]:
        place = f"const int place = start + k * {WARP};"
        return each("k", batch, [place, *when([f"place < {end}"], lines)])

    terms = [f"{left.kind} {left.array}_taken[{batch}];" for left in found]
    loads = [f"{left.array}_taken[k] = {left.array}[place];" for left in found]
    steps = [f"{left.state} = {_step(left)};" for left in found]
    first = "part" if begin == "0" else f"{begin} + part"
    head = f"for (int start = {first}; start < {end}; start += {WARP * batch})"
    return block(head, [*terms, *of_batch(loads), *of_batch(steps)])


def _step(left: _Left) -> str:
    """The thread's state with one more of what was left."""
    kind = COMPUTE_TYPES[_dtype(left.total)]
    return left.step.format(left.state, f"{left.array}_taken[k]", t=kind)
