"""Peak memory of a call."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes

from reports.columns import OURS
from reports.plots.executors import legend
from reports.plots.figure import Figure, Handles, draw, log_ticks
from reports.plots.lines import Part, at_longest, mark, name_lines, parts
from reports.rows import Run


def figures(run: Run) -> tuple[Figure, ...]:
    """A figure per suite and pass; of a sweep, its greatest length."""
    frame = at_longest(run.frame[run.frame["peak_alloc_mib"] > 0])
    found = []
    for (suite, phase), rows in frame.groupby(["suite", "phase"], sort=False):
        labels = list(dict.fromkeys(rows["label"]))
        for number, part in enumerate(parts(f"{suite} {phase}", labels)):
            found.append(_figure(f"memory-{suite}-{phase}-{number}", rows, part))
    return tuple(found)


def _figure(name: str, rows: pd.DataFrame, part: Part) -> Figure:
    executors = sorted(dict.fromkeys(rows["executor"]), key=OURS.__eq__)  # ours on top

    def paint(panels: Sequence[Axes]) -> Handles:
        (panel,) = panels
        for executor in executors:
            mine = rows[rows["executor"] == executor].set_index("label")["peak_alloc_mib"]
            found = [(mine[label], k) for k, label in enumerate(part.labels) if label in mine]
            mark(panel, executor, [x for x, _ in found], [y for _, y in found])
        name_lines(panel, part, "MiB at the peak, beyond the inputs")
        panel.set_xscale("log")
        log_ticks(panel.xaxis)
        return legend(executors)

    return draw(name, f"Peak memory, {part.title}", part.height, paint)
