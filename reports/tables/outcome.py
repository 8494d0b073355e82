"""What was not measured, or not as it should be: no row goes without a word."""

from __future__ import annotations

import pandas as pd

from reports.rows import Run
from reports.table import Table, number, text

NAMED = 8  # workloads that one reason names


def tables(run: Run) -> tuple[Table, ...]:
    """Failed and skipped rows by reason, throttled rows, rows without the time that judges them."""
    found = (_failures(run.frame), _throttled(run.frame), _unmeasured(run.frame))
    return tuple(table for table in found if table is not None)


def _failures(frame: pd.DataFrame) -> Table | None:
    bad = frame[frame["status"] != "ok"]
    grouped = bad.groupby(["executor", "status", "error_msg"], sort=False, dropna=False)
    rows = tuple(
        (executor, status, str(len(found)), _names(found), _reason(reason))
        for (executor, status, reason), found in grouped
    )
    head = ("executor", "status", "passes", "workloads", "reason")
    return Table(head, rows, "failed and skipped", labels=5) if rows else None


def _throttled(frame: pd.DataFrame) -> Table | None:
    """Their times stand in every table: they are marked here and in comparisons, not dropped."""
    rows = frame[frame["throttled"].eq(True)]
    lines = tuple(
        (
            *(row["label"], row["phase"], row["executor"], text(row["time_us"], ",.1f")),
            *(number(name, ".0f")(row) for name in ("sm_clock_mhz", "power_w", "temp_c")),
        )
        for _, row in rows.iterrows()
    )
    head = ("workload", "pass", "executor", "us", "SM MHz", "W", "°C")
    return Table(head, lines, "measured while the GPU was throttled", labels=3) if lines else None


def _unmeasured(frame: pd.DataFrame) -> Table | None:
    bad = frame[(frame["status"] == "ok") & frame["time_us"].isna() & (frame["suite"] != "compile")]
    rows = tuple(
        (suite, executor, str(len(found)), _names(found))
        for (suite, executor), found in bad.groupby(["suite", "executor"], sort=False)
    )
    head = ("suite", "executor", "passes", "workloads")
    return Table(head, rows, "ok, but without a time", labels=4) if rows else None


def _names(rows: pd.DataFrame) -> str:
    names = list(dict.fromkeys(rows["label"]))
    if len(names) > NAMED + 1:
        names[NAMED:] = [f"and {len(names) - NAMED} more"]
    return ", ".join(names)


def _reason(reason: object) -> str:
    return "no reason was recorded" if reason is None or pd.isna(reason) else str(reason)
