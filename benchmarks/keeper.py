"""Keep a run going: end a step that takes too long, start again behind what took the process down,
and end in time.

A step is what the note beside the rows names: an executor that compiles, or all of them in turns.
What died or was stopped is entered as a failed row by the process that goes on.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import note, process
from benchmarks.pace import LOST, OUT_OF_TIME

OUT = Path("rows.jsonl")  # where rows go that were not told where
POLL_SECONDS = 0.2
FRUITLESS = 2  # processes in a row that may die before they measure anything


@dataclass(frozen=True)
class Limits:
    """Seconds for a step, and for all; the rows, and whether those that are there are kept. With
    several GPUs no step is limited here, but in each of their lanes."""

    step: float | None
    budget: float | None
    out: Path
    resume: bool


def limits(argv: Sequence[str]) -> Limits:
    """Of a call; what else is wrong with it is found by the process that measures."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--limit", type=float)
    parser.add_argument("--budget", type=float)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--gpus")
    try:
        known, _ = parser.parse_known_args(argv)
    except argparse.ArgumentError:
        return Limits(None, None, OUT, False)
    step = None if known.gpus else known.limit
    return Limits(step, known.budget, known.out, known.resume)


def keep(argv: Sequence[str], limits: Limits, begun: float) -> int:
    """Measure in another process, and in a next one where it died. Returns the exit status."""
    keeper = Keeper(argv, limits, begun)
    try:
        while (status := keeper.poll()) is None:
            time.sleep(POLL_SECONDS)
        return status
    finally:
        keeper.end()


class Keeper:
    """Has a process measure, and starts a next one where it died, for whoever polls it."""

    def __init__(
        self,
        argv: Sequence[str],
        limits: Limits,
        begun: float,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`begun`, of the monotonic clock, is when the budget began."""
        self._argv, self._limits, self._environment = argv, limits, environment
        self._end = None if limits.budget is None else begun + limits.budget
        self._deaths, self._has_begun = 0, limits.resume
        self._start()

    def _start(self) -> None:
        self._at_start = self._seen = _progress(self._limits.out)
        self._changed = time.monotonic()
        # The first one makes way for its rows, the next go on.
        again = ["--resume"] if self._has_begun else []
        budget = [] if self._end is None else ["--budget", f"{self._end - self._changed:.0f}"]
        command = [sys.executable, "-m", "benchmarks.kept", *self._argv, *budget, *again]
        self._child = process.start(command, environment=self._environment)

    def poll(self) -> int | None:
        """The exit status, None as long as there is none."""
        status = self._child.poll()
        if status is not None and status >= 0 and status != LOST:
            return status
        if status is not None:
            return self._again()
        now, seen, limits = time.monotonic(), _progress(self._limits.out), self._limits
        if seen != self._seen:
            self._changed, self._seen = now, seen
        if self._end is not None and now > self._end:
            note.note_of(limits.out).unlink(missing_ok=True)  # it is not to blame
            print("the budget is spent; --resume goes on", file=sys.stderr)
            process.end(self._child)
            return OUT_OF_TIME
        if limits.step is not None and now - self._changed > limits.step:
            process.end(self._child)
            if self._seen != self._at_start:
                note.stamp(limits.out, limits.step)
            return self._again()
        return None

    def _again(self) -> int | None:
        """Start the next process, unless too many have died at once."""
        process.end(self._child)
        has_measured = _progress(self._limits.out) != self._at_start
        self._deaths = 0 if has_measured else self._deaths + 1
        self._has_begun |= has_measured
        if self._deaths == FRUITLESS:
            print(f"python -m benchmarks: {self._deaths} processes died at once", file=sys.stderr)
            return 1
        print("the process died; another one goes on behind it", file=sys.stderr)
        self._start()
        return None

    def end(self) -> None:
        """End the process, and all that it started."""
        process.end(self._child)


def _progress(out: Path) -> object:
    """Changes with every step and every row."""
    return _written(out), _written(note.note_of(out))


def _written(path: Path) -> object:
    """When, and how much; None of a file that is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
