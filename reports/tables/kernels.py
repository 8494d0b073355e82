"""Kernel times beside each other, and the least that each pass has to move."""

from __future__ import annotations

from reports.columns import HOST_SUITES
from reports.rows import Run
from reports.table import Cell, Row, Table, across, amount, text

OTHER_SUITES = ("models", "compile", *HOST_SUITES)  # they have sections of their own


def tables(run: Run) -> tuple[Table, ...]:
    """A table for each suite; passes that are swept over sequence lengths have their own."""
    others = OTHER_SUITES if run.is_gpu else ("models", "compile")  # the host target is a host
    frame = run.frame[~run.frame["suite"].isin(others) & ~run.frame["is_swept"]]
    found = [
        across(rows, pass_text(run), "time_us", str(suite), best=fastest(run))
        for suite, rows in frame.groupby("suite", sort=False)
    ]
    return tuple(filter(None, found))


def pass_text(run: Run) -> Cell:
    """The cell of a pass: on a GPU us · part of the roof · kernels, else wall time."""

    def cell(row: Row) -> str:
        reached = text(row["part_of_copy"], ".0%")
        return f"{amount(row['time_us'])} · {reached} · {text(row['n_kernels'], '.0f')}"

    return cell if run.is_gpu else lambda row: amount(row["time_us"])


def fastest(run: Run) -> str | None:
    """The column whose least stands out: none on the host target, whose times compare nothing."""
    return "time_us" if run.is_gpu else None


def workloads(run: Run) -> tuple[Table, ...]:
    """What was run, and the megabytes that its passes cannot do without."""
    phases = list(dict.fromkeys(run.frame["phase"]))
    lines = []
    for (suite, label), rows in run.frame.groupby(["suite", "label"], sort=False):
        least = rows.groupby("phase")["io_bytes_min"].max() / 1e6
        first = rows.iloc[0]
        texts = (amount(least.get(phase, float("nan"))) for phase in phases)
        lines.append((suite, label, first["dtype"], first["sizes"], *texts))
    head = ("suite", "workload", "dtype", "sizes", *(f"MB {phase}" for phase in phases))
    return (Table(head, tuple(lines), labels=4),)
