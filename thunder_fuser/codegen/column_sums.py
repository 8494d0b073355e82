"""The sums of a thread's columns, and how the threads of a block bring them together, as C++ text.

A thread has the array `name_part` of a state per lane; those of a block meet in `name_parts`.
"""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.analysis.kept_rows import lies_in_warps
from thunder_fuser.codegen.blocks import per_lane
from thunder_fuser.codegen.split_text import combiner, finished, identity, state_type
from thunder_fuser.codegen.types import COMPUTE_TYPES
from thunder_fuser.dtypes import DataType
from thunder_fuser.kernel.column_ir import ColumnKernel
from thunder_fuser.kernel.kept_ir import KeptKernel, KeptSum, own
from thunder_fuser.kernel.scopes import Accumulator
from thunder_fuser.target import WARP

DownColumns = ColumnKernel | KeptKernel


def places_lines(kernel: DownColumns) -> list[str]:
    """The thread's part of the rows, and its place among those side by side."""
    across = kernel.threads_across
    if kernel.threads_down == 1:
        return ["const int part = 0;", "const int place = threadIdx.x;"]
    return [
        f"const int part = threadIdx.x / {across};",
        f"const int place = threadIdx.x % {across};",
    ]


def declared_sums(totals: Sequence[Accumulator], kernel: DownColumns) -> list[str]:
    """The thread's sums, and the room in which the threads of a column bring theirs together."""
    lanes, lines = kernel.axes.lanes, list[str]()
    for total in totals:
        kind = state_type(total.op, total.dtype)
        lines.append(f"{kind} {total.name}_part[{lanes}];")
        lines += per_lane(cleared(total), lanes)
        if kernel.threads_down > 1:
            lines.append(f"__shared__ {kind} {total.name}_parts{_room(total, kernel)};")
    return lines


def shared_sums(totals: Sequence[Accumulator], kernel: DownColumns) -> list[str]:
    """The parts of each column, combined in shared memory by all threads of the block."""
    if kernel.threads_down == 1:
        return []
    return [*left_parts(totals, kernel), *combined_parts(totals, kernel)]


def left_parts(totals: Sequence[Accumulator], kernel: DownColumns) -> list[str]:
    """What a thread leaves of its columns, or a warp."""
    lines, across = list[str](), kernel.threads_across
    in_warps = [total for total in totals if kernel.warp_parts(total) is not None]
    for total in totals:
        if total not in in_warps:
            copy = f"{part_of(total, 'part', kernel)} = {total.name}_part[lane];"
            is_known = "if (place > 0 || lane >= lag) " if _lags(kernel) else ""
            lines += per_lane(is_known + copy, kernel.axes.lanes)
    for total in in_warps:
        combine, parts = combiner(total.op, total.dtype), f"{total.name}_parts"
        lines.append(f"tf::meet_in_warp<{across}>({total.name}_part, {parts}, {combine});")
    return lines


def combined_parts(totals: Sequence[Accumulator], kernel: DownColumns) -> list[str]:
    """The parts that were left: those of warps by a thread a column, and the few of threads that
    have all places of an image; many of them, as many as halve, by several threads a column."""
    met, barrier = list[str](), "__syncthreads();"
    sizes = f"{kernel.threads}, {kernel.padding}" if kernel.padding else f"{kernel.threads}"
    in_warps = [total for total in totals if kernel.warp_parts(total) is not None]
    halve = kernel.threads_down & (kernel.threads_down - 1) == 0
    are_many = halve and kernel.threads_down >= WARP
    alone = in_warps if are_many or lies_in_warps(kernel.threads_across) else totals
    for total in totals:
        if total not in alone:
            combine, parts = combiner(total.op, total.dtype), f"{total.name}_parts"
            met.append(f"tf::combine_columns<{sizes}>({parts}, {combine});")
    for number, total in enumerate(alone):
        combine, parts = combiner(total.op, total.dtype), f"{total.name}_parts"
        first = number * kernel.threads_across * kernel.axes.lanes % kernel.threads
        met.append(f"tf::combine_parts<{kernel.threads}, {first}>({parts}, {combine});")
    return [barrier, *met, *([barrier] if alone else [])]


def _lags(kernel: DownColumns) -> bool:
    """True for vectors that lag behind their columns."""
    return isinstance(kernel, KeptKernel) and kernel.odd is not None


def _room(total: Accumulator, kernel: DownColumns) -> str:
    """For the parts of each column."""
    parts, places = kernel.warp_parts(total), kernel.threads_across * kernel.axes.lanes
    if parts is None:
        return f"[{kernel.threads_down}][{places + kernel.padding}]"
    return f"[{parts}][{places}]"


def whole(total: Accumulator, kernel: DownColumns) -> str:
    """The state of a lane's column, behind what brings the threads of each together."""
    return part_of(total, "0", kernel) if kernel.threads_down > 1 else f"{total.name}_part[lane]"


def part_of(total: Accumulator, part: str, kernel: DownColumns) -> str:
    """The state of a lane that one of the threads of a column has put into shared memory, beside
    those of the same lane, so that the threads of a warp meet all banks. Where vectors lag behind
    columns it is that of the column of the lane."""
    if _lags(kernel):
        place = f"tf::lagging<{kernel.axes.lanes}, {kernel.threads_across}>(lane, lag, place)"
        return f"{total.name}_parts[{part}][{place}]"
    return _at_column(total, part, kernel)


def _at_column(total: Accumulator, part: str, kernel: DownColumns) -> str:
    return f"{total.name}_parts[{part}][lane * {kernel.threads_across} + place]"


def result_lines(
    total: Accumulator, kernel: DownColumns, rounded: DataType | None = None
) -> list[str]:
    """The value of one sum per lane, the array `name_row`."""
    lanes, row = kernel.axes.lanes, f"{total.name}_row"
    value = finished(total.op, total.dtype, whole(total, kernel), rounded)
    kind = COMPUTE_TYPES[total.dtype]
    return [f"{kind} {row}[{lanes}];", *per_lane(f"{row}[lane] = {value};", lanes)]


def own_line(total: KeptSum, kernel: KeptKernel) -> str:
    """The value of one sum, of the column whose lane is the thread's."""
    state = _at_column(total, "0", kernel)
    value = finished(total.op, total.dtype, state, total.rounded)
    return f"const {COMPUTE_TYPES[total.dtype]} {own(total.name)} = {value};"


def cleared(total: Accumulator) -> str:
    """What a sum is before any row, of a lane."""
    return f"{total.name}_part[lane] = {identity(total.op, total.dtype)};"
