"""Passes over sequence lengths: a table per workload."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from reports.rows import Run
from reports.table import Table, across
from reports.tables.kernels import fastest, pass_text


def tables(run: Run) -> tuple[Table, ...]:
    """Of the workloads that ran at several sequence lengths, shortest first."""
    swept = run.frame[run.frame["is_swept"]].sort_values("seq_len", kind="stable")
    found = []
    for (suite, workload), rows in swept.groupby(["suite", "workload"], sort=False):
        lengths = rows.assign(label=rows["label"].str.removeprefix(f"{workload} "))
        by_phase = [part for _, part in lengths.groupby("phase", sort=False)]
        caption = f"{suite}: {workload}"
        found.append(
            across(pd.concat(by_phase), pass_text(run), "time_us", caption, best=fastest(run))
        )
    tables = (table for table in found if table is not None)
    return tuple(replace(table, head=("sizes", *table.head[1:])) for table in tables)
