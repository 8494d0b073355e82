"""First calls: cold beside warm, and what a cold one of ours is made of."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from reports.columns import FIRST_CALLS, OURS
from reports.plots.executors import legend, look
from reports.plots.figure import Figure, Handles, draw, log_ticks
from reports.plots.lines import LINE_HEIGHT, REST_HEIGHT, Part, name_lines, parts, pass_label
from reports.rows import Run
from reports.table import in_order

_STAGES = (  # column, name, colour: of no executor
    ("trace_s", "trace", "#b4b4b4"),
    ("fuse_s", "fuse", "#8f6fc9"),
    ("codegen_s", "codegen", "#c9a227"),
    ("nvrtc_s", "NVRTC", "#6e6e6e"),
    ("tune_s", "timing", "#5fa8a8"),
)
SAMPLES_WIDTH = 3.0  # points
_EXECUTOR_HEIGHT = 0.11  # inches of a line that each executor takes


def figures(run: Run) -> tuple[Figure, ...]:
    """Cold and warm per executor, then the stages of ours."""
    return (*_cold_and_warm(run.frame), *_stages(run.frame))


def _cold_and_warm(frame: pd.DataFrame) -> list[Figure]:
    frame = frame[frame["first_call_s_cold"].notna()]
    frame = frame.assign(line=[*map(pass_label, frame["label"], frame["phase"])])
    found = []
    for number, part in enumerate(parts("first call, cold and warm", _lines(frame))):
        found.append(_pairs(f"first-call-{number}", frame, part))
    return found


def _pairs(name: str, frame: pd.DataFrame, part: Part) -> Figure:
    """Cold filled, warm hollow, a line between; a broad one over all samples of each."""
    executors = in_order(frame["executor"])
    step = 0.8 / len(executors)

    def paint(panels: Sequence[Axes]) -> Handles:
        (panel,) = panels
        for _, row in frame[frame["line"].isin(part.labels)].iterrows():
            offset = (executors.index(row["executor"]) + 0.5) * step - 0.4
            how, y = look(row["executor"]), part.labels.index(row["line"]) + offset
            times = (row["first_call_s_warm"], row["first_call_s_cold"])
            panel.plot(times, (y, y), color=how.colour, linewidth=0.8)
            for samples in (row[column] for column in FIRST_CALLS.values() if row[column]):
                ends = (min(samples), max(samples))
                panel.plot(ends, (y, y), color=how.colour, linewidth=SAMPLES_WIDTH, alpha=0.35)
            panel.plot(times[0], y, how.marker, color=how.colour, fillstyle="none")
            panel.plot(times[1], y, how.marker, color=how.colour)
        name_lines(panel, part, "s: cold is filled, warm is hollow")
        panel.set_xscale("log")
        log_ticks(panel.xaxis)
        return legend(executors)

    height = len(part.labels) * (LINE_HEIGHT / 2 + _EXECUTOR_HEIGHT * len(executors))
    return draw(name, f"{part.title}, seconds per executor", height + REST_HEIGHT, paint)


def _stages(frame: pd.DataFrame) -> list[Figure]:
    columns = [column for column, _, _ in _STAGES]
    frame = frame[(frame["executor"] == OURS) & frame[columns].notna().any(axis=1)]
    if frame["suite"].eq("compile").any():  # there they are measured with care; tables show all
        frame = frame[frame["suite"] == "compile"]
    frame = frame.assign(line=[*map(pass_label, frame["label"], frame["phase"])])
    found = []
    for number, part in enumerate(parts("first call of ours, by stage", _lines(frame))):
        found.append(_stacks(f"stages-{number}", frame, part))
    return found


def _stacks(name: str, frame: pd.DataFrame, part: Part) -> Figure:
    def paint(panels: Sequence[Axes]) -> Handles:
        (panel,) = panels
        for _, row in frame[frame["line"].isin(part.labels)].iterrows():
            y, start = part.labels.index(row["line"]), 0.0
            for column, _, colour in _STAGES:
                length = 0.0 if pd.isna(row[column]) else row[column]
                panel.barh(y, length, left=start, height=0.62, color=colour)
                start += length
        name_lines(panel, part, "s")
        return [Patch(color=colour, label=stage) for _, stage, colour in _STAGES]

    return draw(name, part.title, part.height, paint)


def _lines(frame: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(frame["line"]))
