"""Read and check rows: one device, one target, every column that the tables need."""

from __future__ import annotations

import difflib
import json
from pathlib import Path

import pandas as pd

KEY = ["workload", "phase", "sizes", "dtype", "executor"]
TIMES = [f"{clock}_us_{q}" for clock in ("kernel", "host", "wall") for q in ("p20", "p50", "p80")]
NUMBERS = [*TIMES, "n_kernels", "io_bytes_min", "peak_alloc_mib", "first_call_s"]
NUMBERS += ["err_vs_fp64", "err_eager_vs_fp64", "copy_gbps"]
ENVIRONMENT = ["timestamp_utc", "command", "git_sha", "git_dirty", "target", "gpu_name", "cpu_name"]
ENVIRONMENT += ["torch", "thunder"]
COLUMNS = [*KEY, "status", "error_msg", "trial_us", *NUMBERS, *ENVIRONMENT]
STATUSES = {"ok", "error", "oom", "skipped"}
HOST = "host"  # the target whose times tell nothing about a GPU


class BadRows(ValueError):
    """The rows cannot be reported; the message names the file and what is wrong with it."""


def read(path: Path) -> pd.DataFrame:
    """The rows of one run, numbers as float64 with NaN where nothing was measured.

    Raises BadRows for a file that is missing, empty, no JSONL, lacks a column, holds a row twice,
    or mixes devices or targets.
    """
    frame = pd.DataFrame(_objects(path))
    _check_columns(frame, path)
    unknown = sorted(set(frame["status"]) - STATUSES)
    if unknown:
        raise BadRows(f"{path}: status {unknown[0]!r} is none of {', '.join(sorted(STATUSES))}")
    try:
        frame[NUMBERS] = frame[NUMBERS].astype("float64")
    except (TypeError, ValueError) as error:
        raise BadRows(f"{path}: a column of numbers holds something else: {error}") from error
    for column in ("target", "gpu_name" if is_gpu(frame) else "cpu_name"):
        found = frame[column].astype(str).unique()
        if len(found) > 1:
            raise BadRows(f"{path} mixes rows of several {column}: {' and '.join(found)}")
    twice = frame[frame.duplicated(KEY)]
    if len(twice):
        raise BadRows(f"{path} holds a row twice: {name(twice.iloc[0])}")
    return frame


def is_gpu(frame: pd.DataFrame) -> bool:
    """Whether the first row, and so every row of a file that was read, ran on a GPU."""
    return bool(frame["target"].iloc[0] != HOST)


def device(frame: pd.DataFrame) -> str:
    """What the rows ran on: two runs on different ones are never compared."""
    first = frame.iloc[0]
    return str(first["gpu_name"]) if is_gpu(frame) else f"host target on {first['cpu_name']}"


def clock(frame: pd.DataFrame) -> str:
    """The time by which rows are judged: kernels on a GPU, wall time on the host target."""
    return "kernel_us" if is_gpu(frame) else "wall_us"


def name(row: pd.Series) -> str:
    """A row in a message."""
    return " ".join(str(row[column]) for column in ("workload", "phase", "executor"))


def _objects(path: Path) -> list[dict[str, object]]:
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadRows(f"{path}: {reason}; `python -m benchmarks` writes rows") from error
    found = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise BadRows(f"{path}:{number} is no JSON object: {error}") from error
        if not isinstance(row, dict):
            raise BadRows(f"{path}:{number} is no JSON object")
        found.append(row)
    if not found:
        raise BadRows(f"{path} is empty")
    return found


def _check_columns(frame: pd.DataFrame, path: Path) -> None:
    missing = [column for column in COLUMNS if column not in frame]
    if not missing:
        return
    others = [column for column in frame if column not in COLUMNS]
    hints = []
    for column in missing:
        near = difflib.get_close_matches(column, others, n=1)
        hints.append(f"{column} (it has {near[0]})" if near else column)
    raise BadRows(f"{path} lacks {', '.join(hints)}")
