"""What the columns of a sample come to together, as C++ text.

T2_part      of a thread's vector of columns
T2_parts     of all those side by side in the block, each by its first thread
T2_ranks     of the blocks abreast, where there are several: each sends its own to all of them
T2_row       of the sample, to all threads
"""

from __future__ import annotations

from thunder_fuser.codegen.blocks import when
from thunder_fuser.codegen.mail_text import Mail
from thunder_fuser.codegen.split_text import combiner, finished, identity
from thunder_fuser.codegen.statements import scope_lines
from thunder_fuser.codegen.types import COMPUTE_TYPES
from thunder_fuser.kernel.kept_ir import KeptKernel, KeptPhase, KeptSum
from thunder_fuser.kernel.scopes import Accumulator


def neighbours(kernel: KeptKernel) -> list[str]:
    """Which of the blocks abreast a block is, and its mailboxes."""
    if kernel.abreast == 1:
        return []
    return [f"const int rank = blockIdx.x % {kernel.abreast};", *_mail(kernel).opened()]


def columns_meet(phase: KeptPhase, kernel: KeptKernel) -> list[str]:
    """The sums of a phase over the columns of a sample."""
    lines, across = list[str](), kernel.threads_across
    for total in phase.sums:
        kind, nothing = COMPUTE_TYPES[total.dtype], identity(total.op, total.dtype)
        lines += [
            f"{kind} {total.name}_part = {nothing};",
            f"__shared__ {kind} {total.name}_parts[{across}];",
        ]
    lines += scope_lines(phase.scope, kernel.names, kernel.axes.lanes)
    is_first = "if (part == 0) " if kernel.threads_down > 1 else ""
    lines += [f"{is_first}{total.name}_parts[place] = {total.name}_part;" for total in phase.sums]
    lines.append("__syncthreads();")
    found = {t: _combined(t, f"{t.name}_parts", across) for t in phase.sums}
    if kernel.abreast > 1:
        lines += _exchanged(phase, kernel, found)
        found = {t: _combined(t, f"{t.name}_ranks", kernel.abreast) for t in phase.sums}
    return [*lines, *(_result(total, value) for total, value in found.items())]


def per_sample(kernel: KeptKernel) -> list[str]:
    """What is stored once a sample."""
    if not kernel.samples.statements:
        return []
    lines = scope_lines(kernel.samples, kernel.names, kernel.axes.lanes)
    return when(["threadIdx.x == 0", *(["rank == 0"] if kernel.abreast > 1 else [])], lines)


def _combined(total: Accumulator, values: str, count: int) -> str:
    return f"tf::combine_warps<{count}>({values}, {combiner(total.op, total.dtype)})"


def _result(total: KeptSum, value: str) -> str:
    value = finished(total.op, total.dtype, value, total.rounded)
    return f"const {COMPUTE_TYPES[total.dtype]} {total.name}_row = {value};"


def _exchanged(phase: KeptPhase, kernel: KeptKernel, found: dict[KeptSum, str]) -> list[str]:
    """Every block's own sent to all blocks abreast. Those of the first phase that meets wait until
    all have begun."""
    mail, position = _mail(kernel), kernel.phases.index(phase)
    lines, sends = list[str](), list[str]()
    for total, value in found.items():
        kind, ranks = COMPUTE_TYPES[total.dtype], f"{total.name}_ranks"
        lines.append(f"__shared__ {kind} {ranks}[{kernel.abreast}];")
        sends.append(f"tf::send_mail({ranks} + rank, {value}, {mail.box(position)}, threadIdx.x);")
    is_first = not any(earlier.meet for earlier in kernel.phases[:position])
    return [
        *lines,
        *(["tf::cluster_wait();"] if is_first else []),
        *when([f"threadIdx.x < {kernel.abreast}"], sends),
        *mail.awaited(position),
    ]


def _mail(kernel: KeptKernel) -> Mail:
    """Of all blocks abreast, this one among them."""
    phases = ((p.sums if p.meet else ()) for p in kernel.phases)
    sizes = (sum(total.itemsize for total in sums) for sums in phases)
    return Mail(tuple(kernel.abreast * size for size in sizes), walks=False)
