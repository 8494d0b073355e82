"""Rate against size: whether a pass that is far from the roof is far because it is small."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from reports.columns import OURS
from reports.plots.executors import legend
from reports.plots.figure import INK, Figure, Handles, draw, log_ticks
from reports.plots.lines import mark
from reports.rows import Run
from reports.table import in_order
from reports.tables.roofline import attainable, sizes_between, timed

PANEL_HEIGHT, LEGEND_HEIGHT = 2.3, 0.7  # inches
PEER_SIZE, OUR_SIZE = 3.5, 5.0  # points


def figures(run: Run) -> tuple[Figure, ...]:
    """One for each suite, a panel per pass."""
    frame = timed(run)
    return tuple(
        _figure(run, str(suite), rows) for suite, rows in frame.groupby("suite", sort=False)
    )


def _figure(run: Run, suite: str, rows: pd.DataFrame) -> Figure:
    phases = list(dict.fromkeys(rows["phase"]))
    executors = in_order(rows["executor"])
    sizes = rows["io_bytes_min"]
    ends = (sizes.min() / 1.5, sizes.max() * 1.5)

    def paint(panels: Sequence[Axes]) -> Handles:
        for panel, phase in zip(panels, phases, strict=True):
            _panel(panel, rows[rows["phase"] == phase], executors)
            _roof(panel, run.copy_gbps, ends)
            panel.set_title(f"{suite} {phase}")
            panel.set_ylabel("GB/s")
        panels[-1].set_xlabel("minimal MB of a pass")
        lines = (("device copy", "--"), ("of its size", ":"))
        return (
            *legend(executors),
            *(Line2D([], [], color=INK, linewidth=0.8, linestyle=s, label=n) for n, s in lines),
        )

    height = PANEL_HEIGHT * len(phases) + LEGEND_HEIGHT
    alt = f"Minimal bytes per second against minimal bytes, {suite}, per executor"
    return draw(f"roofline-{suite}", alt, height, paint, len(phases))


def _panel(panel: Axes, rows: pd.DataFrame, executors: Sequence[str]) -> None:
    for executor in [*(name for name in executors if name != OURS), OURS]:
        found = rows[rows["executor"] == executor]
        size = OUR_SIZE if executor == OURS else PEER_SIZE
        mark(panel, executor, [*found["io_bytes_min"] / 1e6], [*found["gbps"]], size)


def _roof(panel: Axes, roof: float, ends: tuple[float, float]) -> None:
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.axhline(roof, color=INK, linewidth=0.8, linestyle="--")
    sizes = sizes_between(*ends)
    panel.plot(sizes / 1e6, attainable(sizes, roof), color=INK, linewidth=0.8, linestyle=":")
    panel.set_xlim(ends[0] / 1e6, ends[1] / 1e6)
    for axis in (panel.xaxis, panel.yaxis):
        log_ticks(axis)
