"""Runs of one device, oldest first: how far ahead of the peers, and how long each pass of ours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from reports.columns import OURS
from reports.compare import by_key
from reports.rows import BadRows, Run, pass_of
from reports.tables.speed import geometric_mean, speedup


@dataclass(frozen=True)
class Mean:
    """How many times faster than a peer, per run, in the geometric mean over how many passes; NaN
    over none."""

    suite: str
    peer: str
    values: tuple[float, ...]
    passes: tuple[int, ...]


@dataclass(frozen=True)
class Trend:
    """A pass of ours: us per run, NaN where it has no time; a status is "-" where it has no row."""

    suite: str
    label: str
    phase: str
    times: tuple[float, ...]
    statuses: tuple[str, ...]

    @property
    def change(self) -> float:
        """Of the last time relative to the first; NaN for less than two."""
        known = [time for time in self.times if not math.isnan(time)]
        return known[-1] / known[0] - 1 if len(known) > 1 else float("nan")


@dataclass(frozen=True)
class History:
    """`names` are short and differ from each other."""

    runs: tuple[Run, ...]
    names: tuple[str, ...]
    means: tuple[Mean, ...]
    trends: tuple[Trend, ...]


def history(runs: Sequence[Run]) -> History:
    """In the order in which they were measured. Raises BadRows for runs of several devices."""
    by_device: dict[str, str] = {}
    for run in runs:
        by_device.setdefault(run.device, run.name)
    if len(by_device) > 1:
        places = " and ".join(f"{device} ({name})" for device, name in by_device.items())
        raise BadRows(f"a history is of one device, not of {places}")
    order = sorted(runs, key=_measured)
    return History(tuple(order), _names(order), _means(order), _trends(order))


def _measured(run: Run) -> str:
    """ISO times sort as texts; a run without any comes first."""
    return min(run.frame["timestamp_utc"].dropna(), default="")


def _names(runs: Sequence[Run]) -> tuple[str, ...]:
    """Of the directory or file, numbered where that is not enough."""
    stems = [Path(run.name).name.partition(".")[0] for run in runs]
    if len(set(stems)) == len(stems):
        return tuple(stems)
    return tuple(f"{number}: {stem}" for number, stem in enumerate(stems, 1))


def _means(runs: Sequence[Run]) -> tuple[Mean, ...]:
    pairs = [
        (str(suite), str(peer))
        for run in runs
        for suite, peer in zip(run.frame["suite"], run.frame["executor"], strict=True)
        if peer != OURS and run.is_gpu
    ]
    found = []
    for suite, peer in dict.fromkeys(pairs):
        ratios = [speedup(run.frame, suite, peer) for run in runs]
        if any(len(one) for one in ratios):
            values = tuple(geometric_mean(one) for one in ratios)
            found.append(Mean(suite, peer, values, tuple(map(len, ratios))))
    return tuple(found)


def _trends(runs: Sequence[Run]) -> tuple[Trend, ...]:
    rows = [by_key(run.frame[run.frame["executor"] == OURS]) for run in runs]
    found = []
    for key in dict.fromkeys(key for one in rows for key in one):
        there = [one.get(key) for one in rows]
        last = [row for row in there if row is not None][-1]
        found.append(Trend(*pass_of(last), tuple(map(_time, there)), tuple(map(_status, there))))
    return tuple(found)


def _time(row: pd.Series | None) -> float:
    return float("nan") if row is None or row["status"] != "ok" else float(row["time_us"])


def _status(row: pd.Series | None) -> str:
    return "-" if row is None else str(row["status"])
