"""Go on where a run was interrupted, and past what interrupted it.

Beside the rows lies a note of what runs. It is removed at the end of a run, so one that is found
names what took the process down.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from benchmarks.rows import IDENTITY, Key, Row, gpu_name


@dataclass(frozen=True)
class Running:
    """What a run is at: an executor of a workload, or with an empty `executor` all of them in
    turns."""

    suite: str
    workload: str
    sizes: str
    executor: str

    def ran(self, row: Row) -> bool:
        """Whether `row` is of what ran."""
        is_case = all(
            getattr(self, name) == getattr(row, name) for name in ("suite", "workload", "sizes")
        )
        return is_case and self.executor in ("", row.executor)


@dataclass(frozen=True)
class Earlier:
    """What an interrupted run left: its rows, its id, and what ran when its process died."""

    done: frozenset[Key] = frozenset()
    run_id: str | None = None
    culprit: Running | None = None


def resume(path: Path, device: torch.device) -> Earlier:
    """What an interrupted run wrote. A last line that it did not finish is cut off.

    Raises ValueError for rows of another device and for lines that are no rows.
    """
    culprit = _culprit(path)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        return Earlier(culprit=culprit)
    whole, newline, _ = path.read_text().rpartition("\n")
    path.write_text(whole + newline)
    here, run_id = gpu_name(device), None
    done: set[Key] = set()
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            row = json.loads(line)
            done.add(tuple(row[name] for name in IDENTITY))
            there, run_id = row["gpu_name"], row["run_id"]
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{path}:{number} is no row of a benchmark: {error!r}") from error
        if there != here:
            names = [name or "the host target" for name in (there, here)]
            raise ValueError(f"{path} has rows of {names[0]}, not {names[1]}")
    return Earlier(frozenset(done), run_id, culprit)


@contextmanager
def noting(path: Path) -> Iterator[Callable[[Running], None]]:
    """A function that notes what is about to run. The note stays where that takes the process
    down."""
    beside = _note(path)

    def note(running: Running) -> None:
        beside.write_text(json.dumps(asdict(running)))

    try:
        yield note
    finally:
        beside.unlink(missing_ok=True)


def _culprit(path: Path) -> Running | None:
    try:
        return Running(**json.loads(_note(path).read_text()))
    except (OSError, ValueError, TypeError):  # none, or the note was not finished
        return None


def _note(path: Path) -> Path:
    return path.with_suffix(".running.json")
