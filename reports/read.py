"""Read rows: JSONL and CSV files, and directories of them, are a run."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from reports import peers
from reports.check import checked, joined
from reports.columns import nearest
from reports.derive import derive
from reports.rows import BadRows, Run

SUFFIXES = (".csv", ".jsonl")  # of two files of a name, the last has the rows


def read(paths: Sequence[Path]) -> Run:
    """The rows of one run, from the files that hold it or the directory of a report.

    Raises BadRows for files that are missing, empty, no rows, lack an essential column, use another
    unit, hold a row twice, or mix devices or targets.
    """
    files = [file for path in paths for file in rows_of(path)]
    parts = [_file(file) for file in files]
    frame = derive(joined([(file, frame) for file, (frame, _) in zip(files, parts, strict=True)]))
    notes = tuple(dict.fromkeys(note for _, found in parts for note in found))
    return Run(", ".join(map(str, paths)), frame, notes)


def rows_of(path: Path) -> tuple[Path, ...]:
    """The file, or the files of rows in a directory. Raises BadRows where there are none."""
    if not path.is_dir():
        return (path,)
    found = {file.stem: file for suffix in SUFFIXES for file in path.glob(f"*{suffix}")}
    if not found:
        raise BadRows(f"{path} holds no file of rows (.jsonl or .csv)")
    return tuple(found[stem] for stem in sorted(found))


def _file(path: Path) -> tuple[pd.DataFrame, tuple[str, ...]]:
    text = _text(path)
    if text.lstrip().startswith("{"):
        return checked(pd.DataFrame(_objects(text, path)), path)
    table = _table(text, path)
    if peers.is_foreign(table):
        frame, notes = peers.converted(table, path)
        found, more = checked(frame, path)
        return found, (*notes, *more)
    return checked(table, path)


def _text(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadRows(f"{path} is no text: rows are JSONL or CSV") from error
    except OSError as error:
        raise BadRows(f"{path}: {error.strerror or error}; {_hint(path)}") from error
    if not text.strip():
        raise BadRows(f"{path} is empty")
    return text


def _hint(path: Path) -> str:
    there = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
    near = nearest(path.name, there)
    return f"did you mean {near}?" if near else "`python -m benchmarks` writes rows"


def _objects(text: str, path: Path) -> list[dict[str, Any]]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise BadRows(f"{path}:{number} is no JSON object: {error}") from error
        if not isinstance(row, dict):
            raise BadRows(f"{path}:{number} is no JSON object")
        found.append(row)
    return found


def _table(text: str, path: Path) -> pd.DataFrame:
    """Every cell as it is written; empty ones are absent."""
    try:
        table = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise BadRows(f"{path} is neither JSONL nor CSV: {' '.join(str(error).split())}") from error
    if len(table.columns) < 2:
        raise BadRows(f"{path} is neither JSONL nor CSV: its first line is no header of columns")
    if table.empty:
        raise BadRows(f"{path} has a header and no rows")
    return table.astype(object).mask(table == "", None)
