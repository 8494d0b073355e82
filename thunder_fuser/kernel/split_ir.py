"""What the blocks of a launch leave for each other: their parts of a reduction that they share, or
terms of one over all rows.

    block (split 0, group 3)    its part of the terms  ->  workspace[3][0]
    block (split 1, group 3)    its part of the terms  ->  workspace[3][1]
    the last of group 3         workspace[3][0], [3][1], ... in this order  ->  result

Blocks that come to the end of their part draw a ticket of their group; who draws the last one knows
that all parts are in memory. It combines them in the order of their numbers, whoever it is, so that
results are the same in every run, and the ticket is back at 0 for the next launch.

    every row               its term                                       ->  of_row[row]
    the last of a bundle    of_row[256 * bundle], [256 * bundle + 1], ...  ->  of_bundle[bundle]
    the last of all         of_bundle[0], [1], ...                         ->  result

    block (split 1, group 3)    what its rows add up to  ->  workspace[3][2], marked by a ticket
    block (split 2, group 3)    workspace[3][1], [3][2]  ->  what lies before its rows

Blocks of running sums that share a column are a chain: each waits until those before it have marked
what they left. The last of a window of them leaves what it learned as well, so that those behind
ask no more blocks than one window has. Who comes last of all makes the marks zeros.

Rows come in bundles, of about as many rows as there are bundles, so that nobody reads much and few
blocks draw one ticket. Each row leaves a value of its own, whatever rows a block has, so that all
kernels of a segment take the same workspace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.kernel.column_ir import ColumnKernel
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.kernel.scopes import Accumulator
from thunder_fuser.kernel.streams import StreamKernel

WORKSPACE = "workspace"  # the parameter: bytes that belong to this launch
TICKETS = "tickets"  # the parameter: zeros that no other launch uses at the same time
COUNTED = 2  # tickets of a chain before its marks: of blocks that begin, and that have been told
ALIGNMENT = 16  # bytes
MIN_BUNDLE = 256  # rows, and a power of two: any number of rows that a block has divides it


@dataclass(frozen=True)
class Split:
    """`parts` blocks share each of `groups` groups of results, `width` to a block."""

    parts: int
    groups: int
    width: int

    @property
    def values(self) -> int:
        """Values of one accumulator in the workspace: those of a part lie together, and the parts
        of a group."""
        return self.groups * self.parts * self.width

    def starts(self, accumulators: Sequence[Accumulator]) -> tuple[int, ...]:
        """The byte in the workspace at which the values of each accumulator start, and the end."""
        return _starts(0, [self.values * accumulator.itemsize for accumulator in accumulators])


def _starts(first: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """Where arrays of these bytes start, one after another from `first` on, and the end."""
    found = [first]
    for size in sizes:
        found.append(found[-1] + ceil_div(size, ALIGNMENT) * ALIGNMENT)
    return tuple(found)


@dataclass(frozen=True)
class Room:
    """What a launch needs beside its arguments: the bytes of its workspace, and tickets."""

    workspace_bytes: int
    tickets: int


def room_of(kernel: object) -> Room | None:
    """The room that the blocks of a kernel need for each other; None where they need none."""
    match kernel:
        case RowKernel(tail=tail) if tail is not None:
            tickets = ticket_of_tail(kernel) + bundles_of(kernel).tickets
            return Room(bundles_left(kernel)[-1], tickets)
        case StreamKernel(rows=rows):
            return room_of(rows)
    split = split_of(kernel)
    if split is None:
        return None
    is_chain = isinstance(kernel, ColumnKernel) and kernel.ahead is not None
    tickets = COUNTED + split.groups * split.parts if is_chain else split.groups
    return Room(split.starts(accumulators_of(kernel))[-1], tickets)


def rows_left(kernel: RowKernel) -> tuple[int, ...]:
    """The byte in the workspace at which what all rows leave for each total starts, and the end."""
    split, totals = split_of(kernel), kernel.tail.totals if kernel.tail is not None else ()
    first = split.starts(accumulators_of(kernel))[-1] if split else 0
    return _starts(first, [kernel.rows * total.accumulator.dtype.itemsize for total in totals])


def bundles_left(kernel: RowKernel) -> tuple[int, ...]:
    """The byte at which what all bundles leave for each total starts, and the end."""
    totals = kernel.tail.totals if kernel.tail is not None else ()
    states = [Accumulator("", t.accumulator.dtype, t.op).itemsize for t in totals]
    count = bundles_of(kernel).count
    return _starts(rows_left(kernel)[-1], [count * size for size in states])


@dataclass(frozen=True)
class Bundles:
    """The rows of a launch: `size` in each of `count` bundles, or fewer in the last one."""

    size: int
    count: int

    @property
    def tickets(self) -> int:
        """One of each bundle, and behind them that of several."""
        return self.count + (self.count > 1)


def bundles_of(kernel: RowKernel) -> Bundles:
    """How the rows of a kernel with a tail are summed."""
    size = MIN_BUNDLE
    while size * size < kernel.rows:
        size *= 2
    assert size % kernel.rows_per_block == 0, "a block has rows of two bundles"
    return Bundles(size, ceil_div(kernel.rows, size))


def ticket_of_tail(kernel: RowKernel) -> int:
    """The number of the first ticket that blocks draw behind their rows."""
    split = split_of(kernel)
    return split.groups if split else 0


def split_of(kernel: object) -> Split | None:
    """How the blocks of a kernel share its results; None where each has its own."""
    match kernel:
        case RowKernel(splits=splits) if splits > 1:
            return Split(splits, kernel.rows, 1)
        case ColumnKernel(splits=splits) if splits > 1:
            return Split(splits, kernel.tiles, kernel.threads_across * kernel.axes.lanes)
    return None


def accumulators_of(kernel: object) -> tuple[Accumulator, ...]:
    """What each block of a kernel that is split leaves of a group."""
    match kernel:
        case RowKernel(phases=(phase,)):
            found = ((r.accumulator, r.op) for r in phase.reductions)
            return tuple(Accumulator(v.name, v.dtype, op) for v, op in found)
        case ColumnKernel():
            return kernel.sums if kernel.ahead is None else kernel.carried
    return ()
