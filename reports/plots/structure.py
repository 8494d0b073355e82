"""Bytes that a cut makes a program move: only passes of ours that move more than the least."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes

from reports.columns import OURS
from reports.plots.executors import look
from reports.plots.figure import Figure, Handles, draw
from reports.plots.lines import BAR_ALPHA, Part, name_lines, parts, pass_label
from reports.rows import Run
from reports.table import text

WHOLE = 0.995  # of the bytes: what rounds to 100 % is not cut


def figures(run: Run) -> tuple[Figure, ...]:
    """From the pass that moves most in vain; each says in how many kernels it runs."""
    frame = run.frame[(run.frame["executor"] == OURS) & (run.frame["part_of_moved"] < WHOLE)]
    frame = frame.sort_values("part_of_moved", kind="stable")
    lines = [*map(pass_label, frame["label"], frame["phase"])]
    frame = frame.assign(
        line=[f"{s}: {line}" for s, line in zip(frame["suite"], lines, strict=True)]
    )
    found = parts("least bytes as a part of those moved", list(frame["line"]))
    return tuple(
        _figure(f"structure-{number}", frame[frame["line"].isin(part.labels)], part)
        for number, part in enumerate(found)
    )


def _figure(name: str, rows: pd.DataFrame, part: Part) -> Figure:
    def paint(panels: Sequence[Axes]) -> Handles:
        (panel,) = panels
        percent = 100 * rows["part_of_moved"].to_numpy()
        panel.barh(range(len(rows)), percent, height=0.66, color=look(OURS).colour, alpha=BAR_ALPHA)
        for position, count in enumerate(rows["n_kernels"]):
            panel.annotate(
                text(count, ".0f"),
                (percent[position], position),
                va="center",
                xytext=(3, 0),
                textcoords="offset points",
            )
        panel.set_xlim(0, 105)
        name_lines(panel, part, "%; beside the bar: kernels")
        return ()

    return draw(name, f"{part.title}, passes of ours that were cut", part.height, paint)
