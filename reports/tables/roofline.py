"""The passes of ours that are farthest from what their size allows."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reports.columns import OURS
from reports.rows import Run
from reports.table import ROW, Table, amount, text
from reports.tables.kernels import OTHER_SUITES

# A torch copy of 9.4 MB on an H200 takes 4.4 us, of which the roof explains 2.2.
LAUNCH_US = 2.2  # of every kernel, whatever it moves
SHOWN = 15


def tables(run: Run) -> tuple[Table, ...]:
    """One, the farthest first; none where nothing is known of bytes or of a roof."""
    frame = timed(run)
    ours = frame[frame["executor"] == OURS].sort_values("part_of_size", kind="stable").head(SHOWN)
    if ours.empty:
        return ()
    peers = frame[frame["executor"] != OURS].set_index(ROW)
    rows = tuple(_line(row, peers) for _, row in ours.iterrows())
    head = ("workload", "pass", "of its size", "of the copy", "MB", "us", "kernels")
    caption = f"the {len(rows)} passes of ours that are farthest from what their size allows"
    return (Table((*head, "best peer", "of the copy"), rows, caption),)


def timed(run: Run) -> pd.DataFrame:
    """Rows with minimal bytes, kernels and a roof, and with part_of_size: their part of the rate
    that `attainable` says."""
    frame = run.frame[run.frame["part_of_copy"].notna()]
    frame = frame[~frame["suite"].isin(OTHER_SUITES)]
    gbps = frame["io_bytes_min"] / frame["kernel_us_p50"] / 1e3
    return frame.assign(
        gbps=gbps, part_of_size=gbps / attainable(frame["io_bytes_min"], frame["copy_gbps"])
    )


def attainable(size: pd.Series, roof: pd.Series | float) -> pd.Series:
    """10^9 bytes per second of a kernel that moves `size` bytes at the roof after its launch."""
    return size / 1e3 / (LAUNCH_US + size / 1e3 / roof)


def _line(row: pd.Series, peers: pd.DataFrame) -> tuple[str, ...]:
    key = tuple(row[ROW])
    beside = peers.loc[[key]] if key in peers.index else peers.iloc[:0]
    best = beside.sort_values("kernel_us_p50").head(1)
    names, parts = best["executor"], best["part_of_copy"]
    return (
        *(str(row["label"]), str(row["phase"])),
        *(text(row[column], ".0%") for column in ("part_of_size", "part_of_copy")),
        *(amount(row["io_bytes_min"] / 1e6), amount(row["kernel_us_p50"])),
        text(row["n_kernels"], ".0f"),
        *((str(names.iloc[0]), text(parts.iloc[0], ".0%")) if len(best) else ("-", "-")),
    )


def sizes_between(low: float, high: float) -> pd.Series:
    """Bytes, evenly spaced on a logarithmic axis."""
    return pd.Series(np.geomspace(low, high, 100))
