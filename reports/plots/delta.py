"""Change against the previous run, slowest first, with bars as long as the noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from reports.columns import OURS
from reports.compare import Verdict
from reports.plots.executors import look
from reports.plots.figure import INK, Figure, Handles, draw
from reports.plots.lines import Part, name_lines, parts, pass_label

PERCENT = 100
THROTTLED = " †"


def figures(verdicts: Sequence[Verdict]) -> tuple[Figure, ...]:
    """Of those that have a change, in their order."""
    timed = [v for v in verdicts if not math.isnan(v.change)]
    found = []
    for suite in dict.fromkeys(v.suite for v in timed):
        by_label = {_label(v): v for v in timed if v.suite == suite}
        for number, part in enumerate(parts(f"{suite}: change of ours", list(by_label))):
            found.append(_figure(f"delta-{suite}-{number}", by_label, part))
    return tuple(found)


def _figure(name: str, verdicts: dict[str, Verdict], part: Part) -> Figure:
    def paint(panels: Sequence[Axes]) -> Handles:
        (panel,) = panels
        least = PERCENT * min(verdicts[label].least for label in part.labels)
        panel.axvspan(-least, least, color=INK, alpha=0.08)
        panel.axvline(0, color=INK, linewidth=0.8)
        for position, label in enumerate(part.labels):
            _point(panel, position, verdicts[label])
        name_lines(panel, part, f"% of the previous time; bars: noise; shaded: ±{least:g} %")
        how = look(OURS)
        filled = {"past its bound": "full", "within": "none"}
        return [
            Line2D(
                [],
                [],
                linestyle="",
                marker=how.marker,
                color=how.colour,
                fillstyle=fill,
                label=label,
            )
            for label, fill in filled.items()
        ]

    return draw(name, part.title, part.height, paint)


def _point(panel: Axes, position: int, verdict: Verdict) -> None:
    noise = 0.0 if math.isnan(verdict.noise) else verdict.noise
    panel.errorbar(
        PERCENT * verdict.change,
        position,
        xerr=PERCENT * noise,
        marker=look(verdict.executor).marker,
        color=look(verdict.executor).colour,
        fillstyle="full" if verdict.kind in ("slower", "faster") else "none",
        elinewidth=0.8,
    )


def _label(verdict: Verdict) -> str:
    mark = THROTTLED if verdict.throttled else ""
    return pass_label(verdict.label, verdict.phase) + mark
