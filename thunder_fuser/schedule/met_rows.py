"""Where rows are of which those of a block meet.

gradient of a group norm, 8 channels of 28 x 28     32 threads a row, 8 rows a block
10 of 64 x 64                                       4 blocks of 32 threads a row, 10 rows a block
"""

from __future__ import annotations

from thunder_fuser.analysis.met_rows import groups_of_block, met_rows_held
from thunder_fuser.schedule.parameters import RowParameters
from thunder_fuser.schedule.rejected import Rejected
from thunder_fuser.schedule.residency import Residency, Row
from thunder_fuser.schedule.row_axes import RowAxes
from thunder_fuser.target import Target


def of_met_rows(
    row: Row, count: int, axes: RowAxes, target: Target, parameters: RowParameters
) -> tuple[Residency, int]:
    """Where they are while so many meet, and how many of them a block has. Raises
    Rejected."""
    if axes.rows % count:
        raise Rejected("rows that meet, of which some block would have a part")
    most = target.max_cluster if row.is_sent and not axes.is_shifted else 1
    found = met_rows_held(count, row.vectors, row.lanes, row.loaded, most)
    if found is None:
        raise Rejected(f"{count} rows that meet, which are more than a block holds")
    several = groups_of_block(count, found.threads, parameters.block) if found.cluster == 1 else 1
    registers = frozenset(row.loads)
    return Residency(found.threads, registers, cluster=found.cluster), count * several
