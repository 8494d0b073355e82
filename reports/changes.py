"""Columns that changed between two runs and that no rule judges: kernels, bytes, memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from reports.columns import OURS
from reports.compare import by_key, is_sampled
from reports.rows import Run, pass_of

# column: the relative change that is worth a line; counts and bytes depend on nothing but the code
WORTH: Mapping[str, float] = {
    **dict.fromkeys(("n_regions", "n_segments", "n_kernels", "n_unclaimed_ops"), 0.0),
    **dict.fromkeys(("io_bytes_min", "io_bytes_moved", "bytes_at_cuts", "n_compiled"), 0.0),
    **dict.fromkeys(("regs_max", "spill_bytes", "smem_bytes"), 0.0),
    **dict.fromkeys(("peak_alloc_mib", "saved_for_backward_mib"), 0.01),
    **dict.fromkeys(("host_us_p50", "first_call_s_cold", "first_call_s_warm"), 0.25),
}


@dataclass(frozen=True)
class Change:
    """A figure of a row of ours, in the unit of its column."""

    suite: str
    label: str
    phase: str
    column: str
    old: float
    new: float


def changes(old: Run, new: Run) -> tuple[Change, ...]:
    """Of the rows of ours that are ok in both runs, in the order of the rows."""
    before, after = (by_key(_ours(run)) for run in (old, new))
    found = []
    for key, row in after.items():
        values = before.get(key, row)
        found += [
            Change(*pass_of(row), column, float(values[column]), float(row[column]))
            for column, worth in WORTH.items()
            if not is_sampled(values, row, column)
            and _is_worth_a_line(values[column], row[column], worth)
        ]
    return tuple(found)


def _ours(run: Run) -> pd.DataFrame:
    return run.frame[(run.frame["executor"] == OURS) & (run.frame["status"] == "ok")]


def _is_worth_a_line(old: float, new: float, worth: float) -> bool:
    """A figure that one of the runs lacks has not changed."""
    return bool(abs(new - old) > worth * abs(old))
