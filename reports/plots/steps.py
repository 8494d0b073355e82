"""A step as a bar: kernels, the host where kernels wait for it, and other gaps."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from reports.plots.executors import look
from reports.plots.figure import INK, Figure, Handles, draw
from reports.plots.lines import Part, name_lines
from reports.rows import Run

_KINDS = (  # column, name, how solid, hatch
    ("kernel_us_p50", "kernels", 0.9, ""),
    ("exposed_host_us", "host, beyond them", 0.35, "////"),
    ("gap_us", "other gaps", 0.12, ""),
)
MS = 1e-3


def figures(run: Run) -> tuple[Figure, ...]:
    """A figure per model and pass, a bar per executor; only where kernels were timed."""
    frame = run.frame[(run.frame["suite"] == "models") & run.frame["kernel_us_p50"].notna()]
    frame = frame[frame["wall_us_p50"].notna() & frame["host_us_p50"].notna()]
    groups = frame.groupby(["label", "phase"], sort=False)
    return tuple(
        _figure(f"step-{number}", f"{label} {phase}", rows)
        for number, ((label, phase), rows) in enumerate(groups)
    )


def _figure(name: str, title: str, rows: pd.DataFrame) -> Figure:
    part = Part(title, tuple(rows["executor"]))

    def paint(panels: Sequence[Axes]) -> Handles:
        (panel,) = panels
        for position, (_, row) in enumerate(rows.iterrows()):
            _bar(panel, position, row)
        name_lines(panel, part, "ms a step")
        return [
            Patch(facecolor=INK, alpha=alpha, hatch=hatch, label=kind)
            for _, kind, alpha, hatch in _KINDS
        ]

    alt = f"A step of {title}: kernels, host and gaps, per executor"
    return draw(name, alt, 1.3 * part.height, paint)


def _bar(panel: Axes, position: int, row: pd.Series) -> None:
    colour, start = look(row["executor"]).colour, 0.0
    for column, _, alpha, hatch in _KINDS:
        length = row[column] * MS
        panel.barh(
            position, length, left=start, height=0.66, color=colour, alpha=alpha, hatch=hatch
        )
        start += length
    panel.annotate(f" {start:.1f}", (start, position), va="center", annotation_clip=False)
