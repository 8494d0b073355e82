"""A line per pass, executors on it: the layout that roofs, memory and first calls share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from reports.columns import OURS
from reports.plots.executors import legend, look
from reports.plots.figure import PAPER, Handles
from reports.table import in_order

LINES = 26  # of a figure at most: about a phone's screen
LINE_HEIGHT, REST_HEIGHT = 0.19, 1.0  # inches; the rest is title, axis and legend
BAR_ALPHA = 0.5
_LONGEST = 32  # characters of a label
_SHORT = {"forward": "fwd", "backward": "bwd", "inference": "inf"}


@dataclass(frozen=True)
class Part:
    """Some of the passes that are too many for one figure."""

    title: str
    labels: tuple[str, ...]

    @property
    def height(self) -> float:
        """Inches."""
        return LINE_HEIGHT * len(self.labels) + REST_HEIGHT


def at_longest(frame: pd.DataFrame) -> pd.DataFrame:
    """Of a sweep, the rows of its greatest length, whose labels need not name it."""
    longest = frame.groupby(["suite", "workload"])["seq_len"].transform("max")
    chosen = frame[~frame["is_swept"] | (frame["seq_len"] == longest)]
    labels = chosen["label"].str.replace(r" length=\d+$", "", regex=True)
    return chosen.assign(label=labels.where(chosen["is_swept"], chosen["label"]))


def parts(title: str, labels: Sequence[str]) -> tuple[Part, ...]:
    """Parts of about equal length, none longer than LINES."""
    count = -(-len(labels) // LINES)
    size = -(-len(labels) // max(count, 1))
    return tuple(
        Part(
            title if count == 1 else f"{title} ({k + 1} of {count})",
            tuple(labels[k * size : (k + 1) * size]),
        )
        for k in range(count)
    )


def bar_and_markers(panel: Axes, rows: pd.DataFrame, part: Part, column: str) -> Handles:
    """A bar for ours, a marker for each other executor."""
    executors = in_order(rows["executor"])
    for position, label in enumerate(part.labels):
        for _, row in rows[rows["label"] == label].iterrows():
            how = look(row["executor"])
            if row["executor"] == OURS:
                panel.barh(position, row[column], height=0.66, color=how.colour, alpha=BAR_ALPHA)
            else:
                mark(panel, row["executor"], [row[column]], [position])
    others = [name for name in executors if name != OURS]
    colour = look(OURS).colour
    ours = [Patch(color=colour, alpha=BAR_ALPHA, label=OURS)] if OURS in executors else []
    return (*ours, *legend(others))


def mark(
    panel: Axes, executor: str, xs: Sequence[float], ys: Sequence[float], size: float = 5
) -> None:
    """Markers, `size` points wide, that show on bars and on each other."""
    how = look(executor)
    panel.plot(
        xs,
        ys,
        how.marker,
        color=how.colour,
        markeredgecolor=PAPER,
        markeredgewidth=0.4,
        markersize=size,
    )


def name_lines(panel: Axes, part: Part, below: str) -> None:
    """The labels, first at the top. The title, and what is `below` the axis, may be wider than the
    panel, which is narrow beside long labels."""
    panel.set_yticks(range(len(part.labels)), [_short(label) for label in part.labels])
    panel.set_ylim(len(part.labels) - 0.4, -0.6)
    panel.grid(axis="y", visible=False)
    panel.set_xlabel(below, loc="right")
    canvas = panel.get_figure(root=True)
    assert canvas is not None
    canvas.suptitle(part.title, x=0.0, ha="left")


def pass_label(label: str, phase: str) -> str:
    """A pass as a line: `softmax bwd`."""
    return f"{label.replace('length=', '')} {_SHORT.get(phase, phase)}"


def _short(label: str) -> str:
    """Long ones without their middle: sizes and passes stand at the end."""
    half = _LONGEST // 2
    return label if len(label) <= _LONGEST else f"{label[:half]}…{label[-half + 1 :]}"
