"""What a run is at, in a file beside its rows.

It is removed at the end of a run, so one that is found names what took the process down.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the keeper reads notes and needs no torch
    from benchmarks.rows import Row


@dataclass(frozen=True)
class Running:
    """An executor of a workload, or with an empty `executor` all of them in turns. `limit` are the
    seconds after which it was stopped, where it was."""

    suite: str
    workload: str
    sizes: str
    executor: str
    limit: float | None = None

    def ran(self, row: Row) -> bool:
        """Whether `row` is of what ran."""
        is_case = all(
            getattr(self, name) == getattr(row, name) for name in ("suite", "workload", "sizes")
        )
        return is_case and self.executor in ("", row.executor)


@contextmanager
def noting(out: Path) -> Iterator[Callable[[Running], None]]:
    """A function that notes what is about to run. The note stays where that takes the process
    down."""
    beside = note_of(out)

    def note(running: Running) -> None:
        beside.write_text(json.dumps(asdict(running)))

    try:
        yield note
    finally:
        beside.unlink(missing_ok=True)


def found(out: Path) -> Running | None:
    """What ran when a process died."""
    try:
        return Running(**json.loads(note_of(out).read_text()))
    except (OSError, ValueError, TypeError):  # none, or the note was not finished
        return None


def stamp(out: Path, limit: float) -> None:
    """Note that what ran was stopped after so many seconds."""
    running = found(out)
    if running is not None:
        note_of(out).write_text(json.dumps(asdict(replace(running, limit=limit))))


def note_of(out: Path) -> Path:
    """Beside the rows."""
    return out.with_suffix(".running.json")
