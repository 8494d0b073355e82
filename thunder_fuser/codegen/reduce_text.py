"""The values of a block's threads combined into one per row, as C++ text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thunder_fuser.codegen.blocks import enclosed, per_element, unrolled, when
from thunder_fuser.codegen.mail_text import Mail
from thunder_fuser.codegen.row_threads import within_block
from thunder_fuser.codegen.split_text import (
    combiner,
    combining,
    finished,
    identity,
    parts_of,
    state_type,
)
from thunder_fuser.codegen.statements import number
from thunder_fuser.codegen.types import COMPUTE_TYPES
from thunder_fuser.codegen.values import round_text
from thunder_fuser.dtypes import DataType
from thunder_fuser.kernel.row_ir import Reduce, ReducePhase, RowKernel, Scan
from thunder_fuser.kernel.split_ir import TICKETS, Split, accumulators_of
from thunder_fuser.target import WARP

UNROLL = 4  # parts of a row whose loads are in flight together
WORD = 4  # bytes of the least that a block sends to another


def combined(
    reductions: Sequence[Reduce],
    kernel: RowKernel,
    phase: int = 0,
    *,
    are_finished: bool = True,
    are_of_warps: bool = False,
) -> list[str]:
    """Every accumulator combined over the threads of its row, where those of warps may be
    so already; all of them get the result, or the state of which it would be finished."""
    if not reductions:
        return []
    lines = [] if are_of_warps else within_warps(reductions, kernel)
    threads = kernel.threads_of_piece
    warps = threads // WARP
    shares = kernel.rows_per_block > 1
    own = f" + threadIdx.x / {threads} * {warps}" if shares else ""
    mail = _mail(kernel)  # warps leave their values by turns as well
    sets, which = mail.sets, mail.which
    if warps > 1:
        for reduction in reductions:
            name, kind = reduction.accumulator.name, _state(reduction)
            lines.append(f"__shared__ {kind} {name}s{sets}[{kernel.threads // WARP}];")
            lines.append(f"if (part % {WARP} == 0) {name}s{which}[threadIdx.x / {WARP}] = {name};")
        lines.append("__syncthreads();")
    values = {r: r.accumulator.name for r in reductions}
    if warps > 1:
        values = {r: _over_warps(r, f"{name}s{which}", own, warps) for r, name in values.items()}
    if kernel.cluster > 1:
        lines += _exchanged(values, kernel, phase)
        values = {
            r: f"tf::combine_warps<{kernel.cluster}>({_mail_of(r, kernel)}, {_combine(r)})"
            for r in values
        }
    return [*lines, *(_result(r, value, are_finished) for r, value in values.items())]


def within_warps(reductions: Sequence[Reduce], kernel: RowKernel) -> list[str]:
    """Every accumulator combined over the threads of a warp that have a row."""
    width = min(kernel.threads_of_piece, WARP)
    both = ((r.accumulator.name, r) for r in reductions)
    return [f"{name} = {_over_threads(r, name, width)};" for name, r in both]


def of_rows_that_meet(phase: ReducePhase, kernel: RowKernel) -> list[str]:
    """What each of the rows of a block has, combined in their order over so many neighbours: by
    each thread, or by one warp where more rows than it has lanes are all those of the block."""
    own, row = within_block(kernel)
    is_first = "part == 0" if kernel.cluster == 1 else f"{own} == 0"
    first = f" + {row} / {phase.met} * {phase.met}" if kernel.rows_per_block != phase.met else ""
    is_long = kernel.rows_per_block == phase.met and kernel.rows_per_block > WARP
    left, alone, results = list[str](), list[str](), list[str]()
    for reduction in phase.reductions:
        name, kind, combine = reduction.accumulator.name, _state(reduction), _combine(reduction)
        left.append(f"__shared__ {kind} {name}s[{kernel.rows_per_block}];")
        left.append(f"if ({is_first}) {name}s[{row}] = {name};")
        value = f"tf::combine_warps<{phase.met}>({name}s{first}, {combine})"
        if is_long:
            left.append(f"__shared__ {kind} {name}_met;")
            alone.append(f"{name} = tf::combine_by_lanes<{phase.met}>({name}s, {combine});")
            alone.append(f"if (threadIdx.x == 0) {name}_met = {name};")
            value = f"{name}_met"
        results.append(_result(reduction, value))
    behind = [*when([f"threadIdx.x < {WARP}"], alone), "__syncthreads();"] if is_long else []
    return [*left, "__syncthreads();", *behind, *results]


def _result(reduction: Reduce, value: str, is_finished: bool = True) -> str:
    """What a reduction came to, from its state."""
    dtype, kind = reduction.accumulator.dtype, _state(reduction)
    if is_finished:
        value = finished(reduction.op, dtype, value, reduction.rounded)
        kind = COMPUTE_TYPES[dtype]
    return f"const {kind} {reduction.result.name} = {value};"


def _over_threads(reduction: Reduce, value: str, width: int) -> str:
    """A value of each of so many threads side by side, as one that all of them get."""
    if reduction.op.meet:
        return reduction.op.meet.format(value, width=width)
    return f"tf::warp_reduce<{width}>({value}, {_combine(reduction)})"


def _over_warps(reduction: Reduce, values: str, first: str, warps: int) -> str:
    """One of each warp of a row, from `first` on, as one that all threads get: in pairs,
    or by the lanes of each warp where that would take long."""
    if not reduction.op.meet:
        return f"tf::combine_warps<{warps}>({values}{first}, {_combine(reduction)})"
    width = 1 << (warps - 1).bit_length()
    place = f"threadIdx.x % {width}"
    value = f"{values}[{place}{first}]"
    if width > warps:
        value = f"{place} < {warps} ? {value} : {_empty(reduction)}"
    return _over_threads(reduction, value, width)


def mailboxes(kernel: RowKernel) -> list[str]:
    """One per phase, for what the blocks of a cluster send each other in it."""
    if kernel.cluster == 1:
        return []
    return _mail(kernel).opened()


def _mail(kernel: RowKernel) -> Mail:
    phases = range(len(kernel.phases))
    return Mail(tuple(_delivery(kernel, phase) for phase in phases), bool(kernel.sums))


def _exchanged(values: Mapping[Reduce, str], kernel: RowKernel, phase: int) -> list[str]:
    """Every block's value of each row sent to every block of its cluster, a place for each."""
    mail, (to, _) = _mail(kernel), within_block(kernel)
    places = mail.sets + (f"[{kernel.rows_per_block}]" if kernel.rows_per_block > 1 else "")
    kinds = [(reduction, _mail_type(reduction)) for reduction in values]
    lines = [f"__shared__ {kind} {_ranks(r)}{places}[{kernel.cluster}];" for r, kind in kinds]
    lines += ["tf::cluster_wait();"] if phase == 0 and not kernel.sums else []
    sends = []
    for reduction, kind in kinds:
        place, value = f"{_mail_of(reduction, kernel)} + rank", values[reduction]
        sent = f"{place}, static_cast<{kind}>({value}), {mail.box(phase)}, {to}"
        sends.append(f"tf::send_mail({sent});")
    return [*lines, *when([f"{to} < {kernel.cluster}"], sends), *mail.awaited(phase)]


def _delivery(kernel: RowKernel, phase: int) -> int:
    """Bytes that a block gets in a phase: none in one whose rows meet in each block."""
    if kernel.phases[phase].met is not None:
        return 0
    sizes = (max(r.accumulator.dtype.itemsize, WORD) for r in kernel.phases[phase].reductions)
    return kernel.rows_per_block * kernel.cluster * sum(sizes)


def _ranks(reduction: Reduce) -> str:
    return f"{reduction.accumulator.name}_ranks"


def _mail_of(reduction: Reduce, kernel: RowKernel) -> str:
    """The places of what the blocks of a cluster have of the thread's row."""
    row = f"[{within_block(kernel)[1]}]" if kernel.rows_per_block > 1 else ""
    return f"{_ranks(reduction)}{_mail(kernel).which}{row}"


def _mail_type(reduction: Reduce) -> str:
    dtype = reduction.accumulator.dtype
    return COMPUTE_TYPES[dtype if dtype.itemsize >= WORD else DataType.Int32]


def declared(reductions: Sequence[Reduce]) -> list[str]:
    """The accumulators of a thread, at their identities."""
    return [f"{_state(r)} {r.accumulator.name} = {_empty(r)};" for r in reductions]


def met(reductions: Sequence[Reduce], kernel: RowKernel, split: Split) -> list[str]:
    """What the block sums goes to global memory. The last block of a row goes on, its threads'
    accumulators filled with what all of them left."""
    totals, parts = accumulators_of(kernel), number(split.parts)
    leave = combined(reductions, kernel, are_finished=False)
    stores, clear, take = list[str](), list[str](), list[str]()
    for total, reduction in zip(totals, reductions, strict=True):
        left = f"{total.name}_splits[group * {parts} + "
        stores.append(f"{left}split] = {reduction.result.name};")
        clear.append(f"{total.name} = {identity(total.op, total.dtype)};")
        value = combining(total.op, total.dtype, total.name, f"{left}other]")
        take.append(f"{total.name} = {value};")
    shared = leave.index("__syncthreads();") + 1  # what follows is for the first warp alone
    whole = [*leave[shared:], *when(["part == 0"], stores)]
    leave = [*leave[:shared], *when([f"part < {WARP}"], whole)]
    head = f"for (int other = part; other < {parts}; other += {kernel.threads})"
    return [
        *parts_of(totals, split),
        *enclosed(leave),
        "__shared__ bool is_last;",
        f"if (!tf::is_last(is_last, {TICKETS} + group, {parts})) return;",
        *clear,
        *unrolled(head, take, UNROLL),
    ]


def scanned(scan: Scan, kernel: RowKernel) -> list[str]:
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
    start = f"{name}_so_far" if kernel.chunk else identity
    before = f"{start} = " if kernel.chunk else ""
    step = combiner(scan.op, scan.dtype)
    call = f"scan_row<{threads}, {direction}>({name}, {sums}, part, {identity}, {start}, {step})"
    if kernel.axes.has_runs:
        call = f"scan_runs<{threads}, {direction}>({name}, part, {identity}, {step})"
    lines.append(f"{before}tf::{call};")
    if scan.rounded is not None:
        rounded = round_text(f"{name}[k][lane]", scan.rounded)
        lines += per_element(f"{name}[k][lane] = {rounded};", held, kernel.lanes)
    return lines


def _combine(reduction: Reduce) -> str:
    return combiner(reduction.op, reduction.accumulator.dtype)


def _empty(reduction: Reduce) -> str:
    return identity(reduction.op, reduction.accumulator.dtype)


def _state(reduction: Reduce) -> str:
    return state_type(reduction.op, reduction.accumulator.dtype)
