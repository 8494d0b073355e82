"""Over runs: means against the peers, and times of passes relative to their first."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from reports.columns import OURS
from reports.history import History, Mean, Trend
from reports.plots.executors import legend, look
from reports.plots.figure import INK, Figure, Handles, draw
from reports.plots.lines import pass_label

HEIGHT = 2.8  # inches
NAMED = 3  # the passes that changed most have a name
_STYLES = ("-", "--", ":")


def means(found: History) -> tuple[Figure, ...]:
    """A figure per suite, a line per peer; none for a single run."""
    if len(found.runs) < 2:
        return ()
    suites = dict.fromkeys(mean.suite for mean in found.means)
    return tuple(
        _means(found.names, suite, [mean for mean in found.means if mean.suite == suite])
        for suite in suites
    )


def passes(found: History) -> tuple[Figure, ...]:
    """A figure per suite and pass, a line per workload; none for a single run."""
    timed = [one for one in found.trends if not math.isnan(one.change)]
    groups = dict.fromkeys((one.suite, one.phase) for one in timed)
    return tuple(
        _passes(
            found.names,
            f"{suite} {phase}",
            [one for one in timed if (one.suite, one.phase) == (suite, phase)],
        )
        for suite, phase in groups
    )


def _means(names: Sequence[str], suite: str, rows: Sequence[Mean]) -> Figure:
    def paint(panels: Sequence[Axes]) -> Handles:
        (panel,) = panels
        for mean in rows:
            how = look(mean.peer)
            panel.plot(range(len(names)), mean.values, color=how.colour, marker=how.marker)
        panel.axhline(1, color=INK, linewidth=0.8)
        panel.set_title(f"{suite}: times faster than each peer")
        _name_runs(panel, names)
        return legend([mean.peer for mean in rows], "-")

    return draw(f"means-{suite}", f"Geometric means of {suite} over runs", HEIGHT, paint)


def _passes(names: Sequence[str], title: str, rows: Sequence[Trend]) -> Figure:
    moved = sorted(rows, key=lambda one: -abs(math.log1p(one.change)))[:NAMED]

    def paint(panels: Sequence[Axes]) -> Handles:
        (panel,) = panels
        for one in rows:
            if one not in moved:
                panel.plot(_relative(one), color=INK, alpha=0.3, linewidth=0.7)
        colour = look(OURS).colour
        for one, style in zip(moved, _STYLES, strict=False):
            panel.plot(_relative(one), style, color=colour, marker="o", markersize=3)
        panel.set_title(f"{title}: time of ours, % of its first")
        _name_runs(panel, names)
        return [
            Line2D([], [], linestyle=style, color=colour, label=pass_label(one.label, one.phase))
            for one, style in zip(moved, _STYLES, strict=False)
        ]

    name = f"passes-{title.replace(' ', '-')}"
    return draw(name, f"Times of {title} over runs", HEIGHT, paint, columns=1)


def _relative(one: Trend) -> list[float]:
    first = next(time for time in one.times if not math.isnan(time))
    return [100 * time / first for time in one.times]


def _name_runs(panel: Axes, names: Sequence[str]) -> None:
    """Under the axis, or by number where there is no room."""
    texts = names if sum(map(len, names)) < 50 else [str(k + 1) for k in range(len(names))]
    panel.set_xticks(range(len(names)), texts)
    panel.set_xmargin(0.06)
