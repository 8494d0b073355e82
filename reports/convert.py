"""Give every column its type: the same from JSONL and from CSV."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from reports.columns import COLUMNS, DEFAULT_SUITE, FLAGS, KEY, LISTS, MEASURED, NUMBERS, TEXTS
from reports.rows import BadRows, row_name

_FLAGS = {"true": True, "1": True, "false": False, "0": False}


def converted(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    """COLUMNS and no other: numbers as float64, NaN where there is none; texts, flags and tuples,
    None where there is none. What a row that is not ok measured is of nothing, and dropped. Raises
    BadRows for a value of another type."""
    frame = frame.reindex(columns=COLUMNS).astype(object)
    readers: tuple[tuple[list[str], Callable[[object], Any]], ...] = (
        (KEY + TEXTS, _text),
        (FLAGS, _flag),
        (LISTS, _list),
        (NUMBERS, _number),
    )
    for columns, reader in readers:
        for column in columns:
            frame[column] = _column(frame, column, reader, path)
    for column, default in (("suite", DEFAULT_SUITE), ("sizes", "")):
        frame[column] = frame[column].where(frame[column].notna(), default)
    frame = frame.astype(dict.fromkeys(NUMBERS, "float64"))
    frame.loc[frame["status"] != "ok", MEASURED] = None
    return frame


def _column(
    frame: pd.DataFrame, column: str, reader: Callable[[object], Any], path: Path
) -> pd.Series:
    values = []
    for index, value in zip(frame.index, frame[column], strict=True):
        is_absent = value is None or value == "" or value != value
        try:
            values.append(None if is_absent else reader(value))
        except ValueError as error:
            row = row_name(frame.loc[index])
            raise BadRows(f"{path}: {column} of {row} {error}: {value!r}") from error
    return pd.Series(values, index=frame.index, dtype="object")


def _number(value: object) -> float:
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            return float(value)
        except ValueError:
            pass
    raise ValueError("is no number")


def _flag(value: object) -> bool:
    text = str(value).lower()
    if text not in _FLAGS:
        raise ValueError("is neither true nor false")
    return _FLAGS[text]


def _list(value: object) -> tuple[float, ...]:
    """A JSON list, in a CSV file the text of one."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
        numbers = tuple(map(float, found)) if isinstance(found, (list, tuple)) else None
    except (TypeError, ValueError):
        numbers = None
    if numbers is None or any(not 0 < number < np.inf for number in numbers):
        raise ValueError("is no list of times")
    return numbers


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True) if isinstance(value, (dict, list)) else str(value)
