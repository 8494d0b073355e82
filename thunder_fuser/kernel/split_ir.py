"""A reduction that several blocks share, in one launch.

    block (split 0, group 3)    its part of the terms  ->  workspace[3][0]
    block (split 1, group 3)    its part of the terms  ->  workspace[3][1]
    the last of group 3         workspace[3][0], [3][1], ... in this order  ->  result

Blocks that come to the end of their part draw a ticket of their group; who draws the last one knows
that all parts are in memory. It combines them in the order of their numbers, whoever it is, so that
results are the same in every run, and the ticket is back at 0 for the next launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thunder_fuser.kernel.column_ir import ColumnKernel
from thunder_fuser.kernel.row_ir import Accumulator, RowKernel

WORKSPACE = "workspace"  # the parameter: bytes that belong to this launch
TICKETS = "tickets"  # the parameter: zeros that no other launch uses at the same time
ALIGNMENT = 16  # bytes


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
        found = [0]
        for accumulator in accumulators:
            size = self.values * accumulator.itemsize
            found.append(found[-1] + -(-size // ALIGNMENT) * ALIGNMENT)
        return tuple(found)


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
        case ColumnKernel(sums=sums):
            return sums
    return ()
