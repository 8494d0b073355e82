"""Kernel to CUDA C++ text: the translation unit around the statements of a template.

Index literals are marked while printing and then set apart (`Source`), so that kernels which differ
in them only are one family.
"""

from __future__ import annotations

import re
from dataclasses import replace

from thunder_fuser.codegen.blocks import indent
from thunder_fuser.codegen.column_text import column_lines
from thunder_fuser.codegen.digit_text import digit_lines
from thunder_fuser.codegen.group_text import group_lines
from thunder_fuser.codegen.kept_text import kept_lines
from thunder_fuser.codegen.map_text import map_lines
from thunder_fuser.codegen.order_text import order_lines
from thunder_fuser.codegen.pick_text import pick_lines
from thunder_fuser.codegen.prelude import prelude
from thunder_fuser.codegen.row_text import row_lines
from thunder_fuser.codegen.stream_text import stream_lines
from thunder_fuser.codegen.types import COMPUTE_TYPES, CUDA_TYPES
from thunder_fuser.dtypes import DataType
from thunder_fuser.kernel.column_ir import ColumnKernel
from thunder_fuser.kernel.digit_stages import DigitKernel
from thunder_fuser.kernel.group_ir import GroupKernel
from thunder_fuser.kernel.kept_ir import KeptKernel
from thunder_fuser.kernel.map_ir import Kernel
from thunder_fuser.kernel.ordering import OrderKernel
from thunder_fuser.kernel.picks import PickKernel
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.kernel.source import Parameter, Source
from thunder_fuser.kernel.split_ir import TICKETS, WORKSPACE, Room, room_of
from thunder_fuser.kernel.streams import StreamKernel
from thunder_fuser.kernel.templates import AnyKernel

ENTRY = "kernel"
_MARK = re.compile("\x01(-?\\d+)([\x02-\x04])")
_HINT, _COUNT = "\x03", "\x04"


def emit(kernel: AnyKernel) -> Source:
    """The translation unit of `kernel`: prelude, then one `extern "C"` entry point."""
    lines = _lines(kernel)
    code = "\n".join([*_head(kernel), *indent(lines), "}", ""])
    pieces = _MARK.split(prelude(code) + code)
    parameters = [Parameter(p.name, p.dtype, True) for p in kernel.pointers]
    parameters += [Parameter(s.name, s.dtype, False) for s in kernel.scalars]
    literals = tuple(map(int, pieces[1::3]))
    hints, counts = (
        frozenset(k for k, kind in enumerate(pieces[2::3]) if kind == wanted)
        for wanted in (_HINT, _COUNT)
    )
    fragments = tuple(pieces[::3])
    with_shared = (Kernel, RowKernel, ColumnKernel, KeptKernel, PickKernel)
    shared = kernel.shared_bytes if isinstance(kernel, with_shared) else 0
    made = Source(
        ENTRY,
        fragments,
        literals,
        tuple(parameters),
        kernel.blocks,
        kernel.threads,
        shared,
        _cluster(kernel),
        hints,
        counts,
    )
    room = room_of(kernel)
    return made if room is None else _shared(made, room)


def _shared(made: Source, room: Room) -> Source:
    """With what the blocks of a launch leave for each other."""
    parameters = (
        *made.parameters,
        Parameter(WORKSPACE, DataType.UInt8, True),
        Parameter(TICKETS, DataType.Int32, True),
    )
    return replace(
        made,
        parameters=parameters,
        workspace_bytes=room.workspace_bytes,
        tickets=room.tickets,
    )


def _lines(kernel: AnyKernel) -> list[str]:
    match kernel:
        case Kernel():
            return map_lines(kernel)
        case RowKernel():
            return row_lines(kernel)
        case StreamKernel():
            return stream_lines(kernel)
        case ColumnKernel():
            return column_lines(kernel)
        case KeptKernel():
            return kept_lines(kernel)
        case GroupKernel():
            return group_lines(kernel)
        case PickKernel():
            return pick_lines(kernel)
        case OrderKernel():
            return order_lines(kernel)
        case DigitKernel():
            return digit_lines(kernel)


def _head(kernel: AnyKernel) -> list[str]:
    parameters = []
    # Loads of memory that nobody else writes might be moved behind barriers that follow them.
    is_ordered = isinstance(kernel, DigitKernel)
    for p in kernel.pointers:
        const = "" if p.is_written else "const "
        restrict = "" if is_ordered or (p.is_written and p.is_read) else " __restrict__"
        parameters.append(f"{const}{CUDA_TYPES[p.dtype]}*{restrict} {p.name}")
    parameters += [f"{COMPUTE_TYPES[s.dtype]} {s.name}" for s in kernel.scalars]
    if room_of(kernel) is not None:
        parameters += [f"unsigned char* {WORKSPACE}", f"unsigned* {TICKETS}"]
    cluster = _cluster(kernel)
    together = f" __cluster_dims__({cluster}, 1, 1)" if cluster > 1 else ""
    return [
        f'extern "C" __global__ void{together} __launch_bounds__({_bounds(kernel)})',
        f"{ENTRY}({', '.join(parameters)}) {{",
    ]


def _cluster(kernel: AnyKernel) -> int:
    if isinstance(kernel, KeptKernel):
        return kernel.together
    return kernel.cluster if isinstance(kernel, RowKernel) else 1


def _bounds(kernel: AnyKernel) -> str:
    """Threads of a block and, where the schedule counts on it, blocks of a multiprocessor."""
    if isinstance(kernel, (Kernel, StreamKernel)) or kernel.blocks_at_once is None:
        return str(kernel.threads)
    return f"{kernel.threads}, {kernel.blocks_at_once}"
