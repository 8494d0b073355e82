"""Say what is wrong with rows that were read: columns, values, units, devices, doubles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from reports.columns import (
    CLOCKS,
    COLUMNS,
    DEVICE,
    ESSENTIAL,
    FIRST_CALLS,
    HOST,
    KEY,
    LISTS,
    STATUSES,
    TARGETS,
    TIME,
    mistaken,
    nearest,
)
from reports.convert import converted
from reports.rows import BadRows, judged, row_name

_FEW = 3  # times a median: none of three trials is so far from it
_MANY = 10  # times the wall time: kernels never take so long, but other units do


def checked(frame: pd.DataFrame, path: Path) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """All of COLUMNS, and notes on the columns that are none. Raises BadRows."""
    notes = _known(frame, path)
    _has_essential(frame, path)
    frame = converted(frame, path)
    for column, allowed in (("status", STATUSES), ("target", TARGETS)):
        _is_one_of(frame, column, allowed, path)
    _has_essential_values(frame, path)
    _has_plausible_times(frame, path)
    return frame, notes


def joined(parts: Sequence[tuple[Path, pd.DataFrame]]) -> pd.DataFrame:
    """The rows of several files, one after the other. Raises BadRows for rows of several devices
    and for a row that is there twice."""
    frame = pd.concat([part for _, part in parts], ignore_index=True)
    files = [str(path) for path, part in parts for _ in range(len(part))]
    names = ", ".join(dict.fromkeys(files))
    for column in ("target", DEVICE[frame["target"].iloc[0]]):
        found = list(dict.fromkeys(frame[column]))
        if len(found) > 1:
            which = [files[list(frame[column]).index(value)] for value in found]
            texts = [f"{value} ({file})" for value, file in zip(found, which, strict=True)]
            texts = texts if len(parts) > 1 else [str(value) for value in found]
            raise BadRows(
                f"{names} mixes rows of several {column}: {' and '.join(texts)}; "
                "a report is of one device: give each its own"
            )
    twice = frame[frame.duplicated(KEY, keep=False)]
    if len(twice):
        row = twice.iloc[0]
        same = twice[(twice[KEY] == row[KEY]).all(axis=1)]
        where = " and ".join(dict.fromkeys(files[index] for index in same.index))
        raise BadRows(f"{where} holds a row twice: {row_name(row)} ({row['sizes']})")
    return frame


def _known(frame: pd.DataFrame, path: Path) -> tuple[str, ...]:
    others = [str(column) for column in frame.columns if column not in COLUMNS]
    wrong = [text for text in (mistaken(name, frame.columns) for name in others) if text]
    if wrong:
        raise BadRows(f"{path}: {'; '.join(wrong)}")
    return (f"{path.name} has columns that no table shows: {', '.join(others)}",) if others else ()


def _has_essential(frame: pd.DataFrame, path: Path) -> None:
    targets = set(frame["target"]) if "target" in frame else set()
    needed = [*ESSENTIAL]
    for target in TARGETS:
        needed += [DEVICE[target], TIME[target]] if target in targets else []
    missing = [column for column in needed if column not in frame]
    if missing:
        others = [str(column) for column in frame.columns if column not in COLUMNS]
        hints = [(column, nearest(column, others)) for column in missing]
        texts = [f"{column} (it has {near})" if near else column for column, near in hints]
        raise BadRows(f"{path} lacks {', '.join(texts)}")


def _has_essential_values(frame: pd.DataFrame, path: Path) -> None:
    needed = [(column, frame) for column in ESSENTIAL]
    needed += [(DEVICE[target], frame[frame["target"] == target]) for target in TARGETS]
    for column, rows in needed:
        absent = rows[rows[column].isna()]
        if len(absent):
            raise BadRows(f"{path}: a row without {column}: {row_name(absent.iloc[0])}")


def _is_one_of(frame: pd.DataFrame, column: str, allowed: Sequence[str], path: Path) -> None:
    for value in dict.fromkeys(frame[column].dropna()):
        if value not in allowed:
            near = nearest(value, allowed)
            hint = f"did you mean {near}?" if near else f"it is one of {', '.join(allowed)}"
            raise BadRows(f"{path}: {column} {value!r} is unknown: {hint}")


def _has_plausible_times(frame: pd.DataFrame, path: Path) -> None:
    """Times that contradict each other are in different units."""
    for clock in CLOCKS:
        quantiles = frame[[f"{clock}_p20", f"{clock}_p50", f"{clock}_p80"]]
        low, middle, high = (quantiles[column] for column in quantiles)
        bad = (quantiles <= 0).any(axis=1) | np.isinf(quantiles).any(axis=1)
        bad |= (low > middle) | (middle > high)
        if bad.any():
            row = frame[bad].iloc[0]
            texts = " ".join(f"{column}={row[column]:g}" for column in quantiles)
            raise BadRows(f"{path}: {row_name(row)}: times out of order or unit: {texts}")
    _has_trials_of_its_clock(frame, path)
    mixed = frame["kernel_us_p50"] > _MANY * frame["wall_us_p50"]
    if mixed.any():
        row = frame[mixed].iloc[0]
        kernel, wall = row["kernel_us_p50"], row["wall_us_p50"]
        raise BadRows(
            f"{path}: {row_name(row)}: kernel_us_p50={kernel:g} and wall_us_p50={wall:g} are "
            "hardly both microseconds"
        )


def _has_trials_of_its_clock(frame: pd.DataFrame, path: Path) -> None:
    """Trials are medians of the clock that the row is judged by: else they would say nothing."""
    for _, row in frame[frame[LISTS].notna().any(axis=1)].iterrows():
        clock = f"{judged(row['suite'], row['target'] != HOST)}_p50"
        for column, whole in (("trial_us", clock), *((b, a) for a, b in FIRST_CALLS.items())):
            trial = float(np.median(row[column])) if row[column] else np.nan
            if pd.notna(row[whole]) and (trial < row[whole] / _FEW or trial > row[whole] * _FEW):
                raise BadRows(
                    f"{path}: {row_name(row)}: the median {column}={trial:g} and "
                    f"{whole}={row[whole]:g} are of different units or clocks"
                )
