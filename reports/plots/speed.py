"""Times faster than each peer: every pass a point, the geometric mean a marker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes

from reports.columns import OURS
from reports.plots.executors import look
from reports.plots.figure import INK, Figure, Handles, draw, log_ticks
from reports.plots.lines import Part, mark, name_lines
from reports.rows import Run
from reports.table import in_order
from reports.tables.speed import geometric_mean, speedup


def figures(run: Run) -> tuple[Figure, ...]:
    """A figure per suite, a line per peer; none on the host target, whose times compare nothing."""
    if not run.is_gpu:
        return ()
    peers = [name for name in in_order(run.frame["executor"]) if name != OURS]
    found = []
    for suite in dict.fromkeys(run.frame["suite"]):
        ratios = {peer: speedup(run.frame, suite, peer) for peer in peers}
        timed = {peer: values for peer, values in ratios.items() if len(values)}
        if timed:
            found.append(_figure(suite, timed))
    return tuple(found)


def _figure(suite: str, ratios: Mapping[str, pd.Series]) -> Figure:
    part = Part(f"{suite}: times faster than each peer", tuple(ratios))

    def paint(panels: Sequence[Axes]) -> Handles:
        (panel,) = panels
        for position, (peer, values) in enumerate(ratios.items()):
            colour = look(peer).colour
            panel.plot(
                values, [position] * len(values), "|", color=colour, alpha=0.45, markersize=6
            )
            mark(panel, peer, [geometric_mean(values)], [position], size=7)
        panel.axvline(1, color=INK, linewidth=0.8)
        panel.set_xscale("log")
        log_ticks(panel.xaxis)
        name_lines(panel, part, "marker: geometric mean; strokes: passes; left of 1 we are slower")
        return ()

    return draw(f"speed-{suite}", part.title, part.height, paint)
