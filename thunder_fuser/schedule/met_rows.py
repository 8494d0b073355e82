"""Where rows are of which those of a block meet.

gradient of a group norm, 8 channels of 28 x 28     32 threads a row, 8 rows a block
"""

from __future__ import annotations

from thunder_fuser.analysis.met_rows import groups_of_block, threads_of_met_row
from thunder_fuser.schedule.parameters import RowParameters
from thunder_fuser.schedule.rejected import Rejected
from thunder_fuser.schedule.residency import Residency, Row


def of_met_rows(
    row: Row, count: int, rows: int, parameters: RowParameters
) -> tuple[Residency, int]:
    """Where they are while so many meet, of `rows` in all, and how many of them a block has. Raises
    Rejected."""
    if rows % count:
        raise Rejected("rows that meet, of which some block would have a part")
    threads = threads_of_met_row(count, row.vectors, row.lanes, row.loaded)
    if threads is None:
        raise Rejected(f"{count} rows that meet, which are more than a block holds")
    several = groups_of_block(count, threads, parameters.block)
    return Residency(threads, registers=frozenset(row.loads)), count * several
