"""Tables of text, made of rows. A cell is a median; `-` is what was not measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from reports.columns import EXECUTORS

Row: TypeAlias = Mapping[str, Any]  # of a frame, which has it far more quickly than a Series
Cell = Callable[[Row], str]
Column = tuple[str, Cell]  # what stands above it, and its text
ROW = ["suite", "label", "phase"]  # what names a row of a table: the executors stand beside it


class Best(str):
    """A cell that stands out: the best of its row."""


@dataclass(frozen=True)
class Table:
    """`labels` is how many columns name the row: texts, where the others are numbers. A page may
    fold a long table, unless it `stays_open`."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    labels: int = 2
    stays_open: bool = False


def across(
    frame: pd.DataFrame, cell: Cell, needs: str, caption: str = "", best: str | None = None
) -> Table | None:
    """Workloads and passes down, executors across, in the order of the rows, but for those that
    were skipped throughout. None where no row has the column `needs`; in a row of the table the
    cell with the least of the column `best` stands out."""
    frame = _measured(frame, needs)
    if frame.empty:
        return None
    executors = in_order(frame.loc[frame["status"] != "skipped", "executor"])
    passes: dict[tuple[str, ...], list[Row]] = {}
    for row in frame.to_dict("records"):
        passes.setdefault(tuple(row[name] for name in ROW), []).append(row)
    lines = []
    for (_, label, phase), rows in passes.items():
        texts = {row["executor"]: _text(row, cell, needs) for row in rows}
        known = [row for row in rows if best and not pd.isna(row[best])]
        if best and len(known) > 1:
            winner = min(known, key=itemgetter(best))["executor"]
            texts[winner] = Best(texts[winner])
        lines.append((label, phase, *(texts.get(executor, "-") for executor in executors)))
    return Table(("workload", "pass", *executors), tuple(lines), caption)


def down(
    frame: pd.DataFrame, columns: Sequence[Column], needs: Sequence[str], caption: str = ""
) -> Table | None:
    """A row of the table for each row that has one of the columns `needs`; executors below each
    other, named where there are several. Columns without a figure are left out. None without a
    row."""
    chosen = frame[frame[list(needs)].notna().any(axis=1)]
    if chosen.empty:
        return None
    executors = in_order(chosen["executor"])
    order = chosen["executor"].map(executors.index)
    passes = chosen.groupby(ROW, sort=False).ngroup()
    chosen = chosen.assign(order=order, passes=passes).sort_values(["passes", "order"])
    names = (("workload", "label"), ("pass", "phase"), ("executor", "executor"))
    labels = [name for name in names if name[1] != "executor" or len(executors) > 1]
    rows = chosen.to_dict("records")
    texts = {name: [cell(row) for row in rows] for name, cell in columns}
    shown = {name: cells for name, cells in texts.items() if set(cells) != {"-"}}
    lines = (
        (*(str(row[column]) for _, column in labels), *(cells[k] for cells in shown.values()))
        for k, row in enumerate(rows)
    )
    head = (*(name for name, _ in labels), *shown)
    return Table(head, tuple(lines), caption, labels=len(labels))


def in_order(executors: Iterable[str]) -> list[str]:
    """Each once, those that nobody foresaw last."""
    found = dict.fromkeys(executors)
    known = [name for name in EXECUTORS if name in found]
    return [*known, *(name for name in found if name not in EXECUTORS)]


def number(column: str, form: str, scale: float = 1.0) -> Cell:
    """A cell with the column of its row, times `scale`."""
    return lambda row: text(row[column] * scale, form)


def text(value: float, form: str) -> str:
    """`value` as `form` says, or `-` where there is none."""
    return "-" if pd.isna(value) else format(value, form)


def amount(value: float) -> str:
    """Three digits, without an exponent: 0.123, 1.23, 12.3, 1,234."""
    if pd.isna(value) or np.isinf(value) or value == 0:
        return "-" if pd.isna(value) else f"{value:g}"
    rounded = float(f"{value:.3g}")
    digits = int(np.clip(2 - np.floor(np.log10(abs(rounded))), 0, 3))
    return f"{value:,.{digits}f}"


def _measured(frame: pd.DataFrame, needs: str) -> pd.DataFrame:
    """The rows of those passes in which somebody has the column."""
    found = frame.groupby(ROW)[needs].transform("count")
    return frame[found > 0]


def _text(row: Row, cell: Cell, needs: str) -> str:
    if row["status"] != "ok":
        return str(row["status"])
    return "-" if pd.isna(row[needs]) else cell(row)
