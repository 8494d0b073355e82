"""What blocks that share a reduction leave for each other, as C++ text."""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.codegen.statements import number
from thunder_fuser.codegen.types import COMPUTE_TYPES
from thunder_fuser.kernel.row_ir import Accumulator
from thunder_fuser.kernel.split_ir import WORKSPACE, Split


def parts_of(accumulators: Sequence[Accumulator], split: Split) -> list[str]:
    """The arrays `name_splits` in the workspace."""
    lines = []
    for total, start in zip(accumulators, split.starts(accumulators), strict=False):
        kind = COMPUTE_TYPES[total.dtype]
        address = f"{WORKSPACE} + {number(start)}" if start else WORKSPACE
        name = f"{total.name}_splits"
        lines.append(f"{kind}* const {name} = reinterpret_cast<{kind}*>({address});")
    return lines


def combining(total: Accumulator, left: str, right: str) -> str:
    """Two values of an accumulator as one."""
    return total.op.combine.format(left, right, t=COMPUTE_TYPES[total.dtype])


def identity(total: Accumulator) -> str:
    """The value of an accumulator that nothing was combined into."""
    return total.op.identity.format(t=COMPUTE_TYPES[total.dtype])
