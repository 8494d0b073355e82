"""Markdown tables, one per question. A cell is a median; `-` is what was not measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from reports.rows import clock, device, is_gpu

OURS = "ours"
HOST_WARNING = (
    "**Host target**: kernels compiled by g++ and run on a CPU. These times tell nothing about a "
    "GPU and are never compared with one's."
)
Cell = Callable[[pd.Series], str]


def page(frame: pd.DataFrame) -> str:
    """The whole report in Markdown; its head says how to measure again."""
    sections = [_head(frame), _sizes(frame), _times(frame)]
    if is_gpu(frame):
        sections.append(_speedups(frame))
        sections.append(_table("Host time of a call, us", frame, lambda row: _us(row.host_us_p50)))
    sections.append(_table("First call, s", frame, lambda row: _number(row.first_call_s, "{:.2f}")))
    if is_gpu(frame):
        title = "Peak memory of a call beyond its inputs, MiB"
        sections.append(_table(title, frame, lambda row: _number(row.peak_alloc_mib, "{:.0f}")))
    title = "Error against fp64 (relative norm)"
    sections.append(_table(title, frame, lambda row: _number(row.err_vs_fp64, "{:.1e}")))
    sections.append(_failures(frame))
    return "\n\n".join(sections) + "\n"


def speedup(frame: pd.DataFrame, peer: str) -> pd.Series:
    """How many times faster ours is than `peer`, by workload, phase, sizes and dtype; rows that
    either lacks are left out."""
    good = frame[frame["status"] == "ok"]
    index = ["workload", "phase", "sizes", "dtype"]
    times = good.pivot(index=index, columns="executor", values=f"{clock(frame)}_p50")
    if OURS not in times or peer not in times:
        return pd.Series(dtype="float64")
    return (times[peer] / times[OURS]).dropna()


def geometric_mean(values: pd.Series) -> float:
    """NaN for no values."""
    return float(np.exp(np.log(values).mean())) if len(values) else float("nan")


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table whose columns line up in the text too."""
    cells = [list(head), *([text.replace("|", "\\|") for text in line] for line in lines)]
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * width for width in widths])
    return "\n".join(
        f"| {' | '.join(text.ljust(width) for text, width in zip(line, widths, strict=True))} |"
        for line in cells
    )


def _head(frame: pd.DataFrame) -> str:
    first = frame.iloc[0]
    shas = frame["git_sha"].str.slice(0, 12).unique()
    roof = frame["copy_gbps"].dropna()
    lines = [
        f"# {device(frame)}",
        f"`{first['command']}` at {first['timestamp_utc']}, commit {', '.join(shas)}"
        + (" with changes" if frame["git_dirty"].any() else "")
        + f", torch {first['torch']}, Thunder {first['thunder']}",
    ]
    if not is_gpu(frame):
        lines.append(HOST_WARNING)
    elif len(roof):
        lines.append(f"Device copy in this run: {roof.median():.0f} GB/s, the roof below.")
    return "\n\n".join(lines)


def _sizes(frame: pd.DataFrame) -> str:
    """What was run, and the megabytes that its passes cannot do without."""
    lines = []
    for (workload, sizes, dtype), rows in frame.groupby(["workload", "sizes", "dtype"], sort=False):
        least = rows.groupby("phase")["io_bytes_min"].max() / 1e6
        texts = [_number(least.get(phase), "{:.2f}") for phase in ("forward", "backward")]
        lines.append([str(workload), str(dtype), str(sizes), *texts])
    head = ["workload", "dtype", "sizes", "least MB forward", "backward"]
    return f"## Workloads\n\n{markdown(head, lines)}"


def _times(frame: pd.DataFrame) -> str:
    if not is_gpu(frame):
        return _table("Wall time, us", frame, lambda row: _us(row.wall_us_p50))

    def cell(row: pd.Series) -> str:
        reached = row.io_bytes_min / row.kernel_us_p50 / 1e3 / row.copy_gbps
        return f"{_us(row.kernel_us_p50)} · {reached:.0%} · {row.n_kernels:.0f}"

    return _table("Kernels: us · minimal bytes as a part of the roof · count", frame, cell)


def _table(title: str, frame: pd.DataFrame, cell: Cell) -> str:
    """Workloads and passes down, executors across, in the order of the rows."""
    executors = list(dict.fromkeys(frame["executor"]))
    lines = []
    for (workload, phase, _, _), rows in frame.groupby(
        ["workload", "phase", "sizes", "dtype"], sort=False
    ):
        found = {row.executor: row for _, row in rows.iterrows()}
        texts = (_cell(found.get(executor), cell) for executor in executors)
        lines.append([str(workload), str(phase), *texts])
    return f"## {title}\n\n{markdown(['workload', 'pass', *executors], lines)}"


def _cell(row: pd.Series | None, cell: Cell) -> str:
    if row is None:
        return "-"
    return cell(row) if row.status == "ok" else str(row.status)


def _speedups(frame: pd.DataFrame) -> str:
    """Means say of how many rows they are, and how many there are not and why."""
    lines = []
    for peer in dict.fromkeys(frame["executor"]):
        if peer == OURS:
            continue
        ratios, statuses = speedup(frame, peer), frame[frame["executor"] == peer]["status"]
        lines.append(
            [
                peer,
                _number(geometric_mean(ratios), "{:.2f}"),
                str(len(ratios)),
                str(int((ratios < 1).sum())),
                _number(ratios.min(), "{:.2f}"),
                str(int(statuses.isin(["error", "oom"]).sum())),
                str(int((statuses == "skipped").sum())),
            ]
        )
    failures = int(frame[frame["executor"] == OURS]["status"].isin(["error", "oom"]).sum())
    head = ["peer", "geometric mean", "rows", "of them slower", "worst", "it failed", "skipped"]
    return (
        f"## Times faster than each peer\n\nRows in which ours failed: {failures}.\n\n"
        + markdown(head, lines)
    )


def _failures(frame: pd.DataFrame) -> str:
    bad = frame[frame["status"] != "ok"]
    if bad.empty:
        return "## Failed and skipped\n\nNone."
    grouped = bad.groupby(["executor", "status", "error_msg"], sort=False, dropna=False)
    lines = [
        [str(executor), str(status), ", ".join(dict.fromkeys(rows["workload"])), str(reason)]
        for (executor, status, reason), rows in grouped
    ]
    head = ["executor", "status", "workloads", "reason"]
    return f"## Failed and skipped\n\n{markdown(head, lines)}"


def _us(value: float) -> str:
    return _number(value, "{:.1f}")


def _number(value: float, form: str) -> str:
    return "-" if pd.isna(value) else form.format(value)
