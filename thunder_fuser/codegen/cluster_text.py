"""Columns that the blocks of a cluster share, each with an equal part of the rows, as C++ text.

T1_parts[0]              what the threads of a block came to, a value a column
T1_ranks[rank]           the same, where it is sent from: to the same place of every other block
T1_parts[0]              what the blocks came to, in the order of their ranks
"""

from __future__ import annotations

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.codegen.blocks import block, unrolled, when
from thunder_fuser.codegen.mail_text import Mail
from thunder_fuser.codegen.split_text import combiner
from thunder_fuser.codegen.types import COMPUTE_TYPES
from thunder_fuser.kernel.kept_ir import KeptKernel, KeptPhase
from thunder_fuser.kernel.scopes import Accumulator

_BEGUN = "tf::cluster_wait();"  # all blocks have, to whom mail is sent


def ranks(kernel: KeptKernel) -> list[str]:
    """Which block of its cluster a block is, and its mailboxes. Blocks that have one tile load it
    before they wait until all have begun."""
    if kernel.cluster == 1:
        return []
    rank = f"const int rank = blockIdx.x % {kernel.cluster};"
    return [rank, *_mail(kernel).opened(), *([_BEGUN] if kernel.walks else [])]


def tile_number(kernel: KeptKernel) -> str:
    """Which tile of columns a block has, or its first one."""
    return "blockIdx.x" if kernel.cluster == 1 else f"(blockIdx.x / {kernel.cluster})"


def exchanged(phase: KeptPhase, kernel: KeptKernel) -> list[str]:
    """What every block has of each column, sent to every other block, and combined there."""
    if kernel.cluster == 1:
        return []
    mail, position = _mail(kernel), kernel.phases.index(phase)
    lines, copies, sends, meets = list[str](), list[str](), list[str](), list[str]()
    for total in phase.sums:
        name, kind, count = total.name, COMPUTE_TYPES[total.dtype], _sent(total, kernel)
        places, combine = f"{name}_ranks{mail.which}", combiner(total.op, total.dtype)
        room = f"{name}_ranks{mail.sets}[{kernel.cluster}][{count}]"
        lines.append(f"__shared__ __align__({MAX_ALIGNMENT}) {kind} {room};")
        copies.append(f"{places}[rank][n] = {name}_parts[0][n];")
        sends.append(
            f"tf::send_stretch({places}[rank], {count}, {mail.box(position)}, threadIdx.x);"
        )
        meets += [
            f"{kind} {name}_whole = {places}[0][n];",
            *unrolled(
                f"for (int other = 1; other < {kernel.cluster}; ++other)",
                [f"{name}_whole = {combine}({name}_whole, {places}[other][n]);"],
            ),
            f"{name}_parts[0][n] = {name}_whole;",
        ]
    is_first = position == 0 and not kernel.walks
    return [
        *lines,
        *_over_columns(kernel, copies),
        *([_BEGUN] if is_first else []),
        "tf::show_stretches();",
        "__syncthreads();",
        *when([f"threadIdx.x < {kernel.cluster}", "threadIdx.x != rank"], sends),
        *mail.awaited(position),
        *_over_columns(kernel, meets),
        "__syncthreads();",
    ]


def received(kernel: KeptKernel) -> list[str]:
    """Once a block has all its mail."""
    return [] if kernel.cluster == 1 else ["tf::cluster_arrive();"]


def ended(kernel: KeptKernel) -> list[str]:
    """Until all blocks have theirs: what a block sends is read of its shared memory meanwhile."""
    return [] if kernel.cluster == 1 else ["tf::cluster_wait();"]


def _mail(kernel: KeptKernel) -> Mail:
    """Of all blocks but this one."""
    deliveries = (
        (kernel.cluster - 1) * sum(t.dtype.itemsize * _sent(t, kernel) for t in phase.sums)
        for phase in kernel.phases
    )
    return Mail(tuple(deliveries), kernel.walks)


def _sent(total: Accumulator, kernel: KeptKernel) -> int:
    """Places of what a block sends of a sum: of its columns, in whole accesses."""
    unit = MAX_ALIGNMENT // total.dtype.itemsize
    return ceil_div(kernel.threads_across * kernel.axes.lanes, unit) * unit


def _over_columns(kernel: KeptKernel, lines: list[str]) -> list[str]:
    columns = kernel.threads_across * kernel.axes.lanes
    return block(f"for (int n = threadIdx.x; n < {columns}; n += {kernel.threads})", lines)
