"""Where and how a run was measured: the head of every page."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from reports.columns import HOST_SUITES
from reports.rows import Run
from reports.table import text

Fact = tuple[str, str]
HOST_WARNING = (
    "Host target: kernels compiled by g++ and run on a CPU. These times tell nothing about a GPU "
    "and are never compared with one's."
)
_SAID = (
    ("timestamp_utc", "measured"),
    ("source", "harness"),
    ("git_sha", "commit"),
    ("run_id", "run"),
    ("torch", "torch"),
    ("thunder", "Thunder"),
    ("thunder_fuser", "thunder_fuser"),
    ("litgpt", "LitGPT"),
    ("python", "Python"),
    ("driver", "driver"),
    ("nvrtc", "NVRTC"),
    ("cpu_name", "CPU"),
)
_SHA = 12  # digits


def facts(run: Run) -> tuple[Fact, ...]:
    """Names and values; a value that differs between rows is all of its values."""
    frame = run.frame
    found = [("device", run.device), ("rows", f"{len(frame)} of {run.name}")]
    found += [(name, value) for column, name in _SAID if (value := _values(frame, column))]
    if run.is_gpu:
        found += _ends(frame, (("copy_gbps", "device copy", "GB/s"),))
        found += _clocks(frame)
    return tuple(found)


def facts_of_both(old: Run, new: Run) -> tuple[Fact, ...]:
    """What they have in common, and what differs: old -> new."""
    before, after = dict(facts(old)), dict(facts(new))
    pairs = [(name, before.get(name, "-"), after.get(name, "-")) for name in {**before, **after}]
    return tuple((name, one if one == two else f"{one} → {two}") for name, one, two in pairs)


def commands(run: Run) -> tuple[str, ...]:
    """What was typed to measure it."""
    return tuple(dict.fromkeys(run.frame["command"].dropna()))


def warnings(run: Run) -> tuple[str, ...]:
    """What a reader must know before any figure."""
    frame = run.frame
    found = [] if run.is_gpu else [HOST_WARNING]
    if frame["git_dirty"].eq(True).any():
        found.append("The commit had changes that were not committed.")
    throttled = int(frame["throttled"].eq(True).sum())
    if throttled:
        found.append(f"Rows measured while the GPU was throttled: {throttled}.")
    is_timed = frame["time_us"].notna() & ~frame["suite"].isin(HOST_SUITES)
    if run.is_gpu and frame[is_timed]["kernel_us_p20"].isna().all():
        found.append("No quantiles were recorded: nothing is known of the noise.")
    return (*found, *run.notes)


def warnings_of(runs: Sequence[Run]) -> tuple[str, ...]:
    """Those of several runs, each once: which of them it is about stands before it."""
    about: dict[str, list[str]] = {}
    for run in runs:
        for warning in warnings(run):
            about.setdefault(warning, []).append(run.name)
    return tuple(
        warning if len(names) == len(runs) else f"{', '.join(names)}: {warning}"
        for warning, names in about.items()
    )


def _values(frame: pd.DataFrame, column: str) -> str:
    values = list(dict.fromkeys(frame[column].dropna().astype(str)))
    if column == "timestamp_utc" and len(values) > 2:  # each process of a run has its own
        return f"{min(values)} to {max(values)}"
    return ", ".join(value[:_SHA] if column == "git_sha" else value for value in values)


def _clocks(frame: pd.DataFrame) -> list[Fact]:
    found = []
    locked = set(frame["clocks_locked"].dropna())
    if locked:
        found.append(("clocks", " and ".join("locked" if one else "not locked" for one in locked)))
    return found + _ends(
        frame,
        (
            ("sm_clock_mhz", "SM clock", "MHz"),
            ("mem_clock_mhz", "memory clock", "MHz"),
            ("power_w", "power", "W"),
            ("temp_c", "temperature", "°C"),
        ),
    )


def _ends(frame: pd.DataFrame, columns: Sequence[tuple[str, str, str]]) -> list[Fact]:
    """The least and the greatest of each column, with its unit."""
    found = []
    for column, name, unit in columns:
        values = frame[column].dropna()
        if len(values):
            ends = dict.fromkeys(text(end, ",.0f") for end in (values.min(), values.max()))
            found.append((name, f"{' to '.join(ends)} {unit}"))
    return found
