"""Percent of the copy roof, a figure per suite and pass."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes

from reports.plots.figure import INK, Figure, Handles, draw
from reports.plots.lines import Part, at_longest, bar_and_markers, name_lines, parts
from reports.rows import Run
from reports.tables.kernels import OTHER_SUITES

EDGE = 150  # percent; a gradient that is a view of one number comes to thousands
_BELOW = "% of the device copy (dashed)"


def figures(run: Run) -> tuple[Figure, ...]:
    """Bars of ours, markers of the peers; of a sweep, its greatest length. What moves much less
    than all of its tensors stands at the edge, or nothing else could be told apart."""
    frame = run.frame[run.frame["part_of_copy"].notna()]
    frame = at_longest(frame[~frame["suite"].isin(OTHER_SUITES)])
    found = []
    for (suite, phase), rows in frame.groupby(["suite", "phase"], sort=False):
        labels = list(dict.fromkeys(rows["label"]))
        for number, part in enumerate(parts(f"{suite} {phase}", labels)):
            found.append(_figure(f"roof-{suite}-{phase}-{number}", rows, part))
    return tuple(found)


def _figure(name: str, rows: pd.DataFrame, part: Part) -> Figure:
    parts_of_copy = 100 * rows["part_of_copy"]
    percent = rows.assign(percent=parts_of_copy.clip(upper=EDGE))
    is_beyond = rows["label"].isin(part.labels) & (parts_of_copy > EDGE)

    def paint(panels: Sequence[Axes]) -> Handles:
        (panel,) = panels
        handles = bar_and_markers(panel, percent, part, "percent")
        panel.axvline(100, color=INK, linewidth=0.8, linestyle="--")
        panel.set_xlim(left=0)
        beyond = f"; at {EDGE}: that or more, a view" if is_beyond.any() else ""
        name_lines(panel, part, f"{_BELOW}{beyond}")
        return handles

    return draw(name, f"Percent of the copy roof, {part.title}", part.height, paint)
