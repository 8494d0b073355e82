"""What a call costs the host."""

from __future__ import annotations

from reports.columns import HOST_SUITES
from reports.rows import Run
from reports.table import Row, Table, across, amount


def tables(run: Run) -> tuple[Table, ...]:
    """A table for each suite, those first that are made to measure it."""
    order = sorted(dict.fromkeys(run.frame["suite"]), key=lambda suite: suite not in HOST_SUITES)
    parts = [(suite, run.frame[run.frame["suite"] == suite]) for suite in order]
    found = [across(rows, _cell, "host_us_p50", suite, best="host_us_p50") for suite, rows in parts]
    return tuple(table for table in found if table is not None)


def _cell(row: Row) -> str:
    return amount(row["host_us_p50"])
