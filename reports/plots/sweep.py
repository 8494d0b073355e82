"""Time against sequence length, both logarithmic: a figure per workload."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from reports.plots.executors import legend, look
from reports.plots.figure import Figure, Handles, draw, log_ticks
from reports.rows import Run
from reports.table import in_order

PANEL_HEIGHT, LEGEND_HEIGHT = 2.1, 0.5  # inches


def figures(run: Run) -> tuple[Figure, ...]:
    """Of the workloads that ran at several sequence lengths, a panel per pass."""
    swept = run.frame[run.frame["is_swept"] & run.frame["time_us"].notna()]
    groups = swept.groupby(["suite", "workload"], sort=False)
    return tuple(_figure(run, str(workload), rows) for (_, workload), rows in groups)


def _figure(run: Run, workload: str, rows: pd.DataFrame) -> Figure:
    phases = list(dict.fromkeys(rows["phase"]))
    executors = in_order(rows["executor"])
    clock = "kernels" if run.is_gpu else "wall time on the host target"

    def paint(panels: Sequence[Axes]) -> Handles:
        for panel, phase in zip(panels, phases, strict=True):
            _panel(panel, rows[rows["phase"] == phase], executors)
            panel.set_title(f"{workload} {phase}")
            panel.set_ylabel("us")
        panels[-1].set_xlabel(f"sequence length; us of {clock}")
        return legend(executors, "-")

    alt = f"Time of {workload} against sequence length, {' and '.join(phases)}, per executor"
    height = PANEL_HEIGHT * len(phases) + LEGEND_HEIGHT
    return draw(f"sweep-{workload}", alt, height, paint, len(phases))


def _panel(panel: Axes, rows: pd.DataFrame, executors: Sequence[str]) -> None:
    for executor in executors:
        line = rows[rows["executor"] == executor].groupby("seq_len")["time_us"].median()
        how = look(executor)
        panel.plot(line.index, line.to_numpy(), color=how.colour, marker=how.marker)
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    log_ticks(panel.yaxis)
    lengths = sorted(set(rows["seq_len"]))
    panel.set_xticks(lengths, [_short(length) for length in lengths])
    panel.xaxis.set_minor_formatter(NullFormatter())


def _short(length: float) -> str:
    """4096 is 4k."""
    return f"{length / 1024:.0f}k" if length % 1024 == 0 else f"{length:.0f}"
