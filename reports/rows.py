"""A run: rows that were read and checked, of one device and one target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from reports.columns import HOST, HOST_SUITES, nearest


class BadRows(ValueError):
    """The rows cannot be reported; the message names the file and what is wrong with it."""


@dataclass(frozen=True)
class Run:
    """Every column of `columns.COLUMNS` and those of `derive`: numbers are float64, NaN where
    nothing was measured; texts, flags and lists are None there. `notes` say what a reader of the
    report has to know of the files."""

    name: str
    frame: pd.DataFrame
    notes: tuple[str, ...] = ()

    @property
    def is_gpu(self) -> bool:
        return bool(self.frame["target"].iloc[0] != HOST)

    @property
    def device(self) -> str:
        """What the rows ran on: runs on different ones are never compared."""
        first = self.frame.iloc[0]
        return str(first["gpu_name"]) if self.is_gpu else f"host target on {first['cpu_name']}"

    @property
    def copy_gbps(self) -> float:
        """The device copy measured in this run; NaN where there was none."""
        return float(self.frame["copy_gbps"].median())

    def only(self, column: str, names: Sequence[str]) -> Run:
        """The rows that have one of the names in the column. Raises BadRows, with the nearest, for
        a name that no row has."""
        known = list(dict.fromkeys(self.frame[column]))
        for name in names:
            if name not in known:
                near = nearest(name, known)
                hint = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
                raise BadRows(f"{self.name} has no {column} {name!r}: {hint}")
        frame = self.frame[self.frame[column].isin(names)].reset_index(drop=True)
        return replace(self, frame=frame)


def judged(suite: str, is_gpu: bool) -> str:
    """The clock by which rows of a suite are judged: what their user waits for."""
    if not is_gpu or suite == "models":
        return "wall_us"
    return "host_us" if suite in HOST_SUITES else "kernel_us"


def pass_of(row: pd.Series) -> tuple[str, str, str]:
    """Suite, label and phase."""
    return str(row["suite"]), str(row["label"]), str(row["phase"])


def row_name(row: pd.Series) -> str:
    """A row in a message."""
    return " ".join(str(row[column]) for column in ("workload", "phase", "executor"))
