"""Keep a run going: end a step that takes too long, start again behind what took the process down,
and end in time.

A step is what the note beside the rows names: an executor that compiles, or all of them in turns.
What died or was stopped is entered as a failed row by the process that goes on.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import note, process
from benchmarks.pace import LOST, OUT_OF_TIME

OUT = Path("rows.jsonl")  # where rows go that were not told where
POLL_SECONDS = 0.2
FRUITLESS = 2  # processes in a row that may die before they measure anything


@dataclass(frozen=True)
class Limits:
    """Seconds for a step, and for all; the rows, and whether those that are there are kept."""

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
    try:
        known, _ = parser.parse_known_args(argv)
    except argparse.ArgumentError:
        return Limits(None, None, OUT, False)
    return Limits(known.limit, known.budget, known.out, known.resume)


def keep(argv: Sequence[str], limits: Limits, begun: float) -> int:
    """Measure in another process, and in a next one where it died. Returns the exit status."""
    deaths, has_begun = 0, limits.resume
    while True:
        left = None if limits.budget is None else begun + limits.budget - time.monotonic()
        status, has_measured = _measure(_arguments(argv, left, has_begun), limits, left)
        if status >= 0 and status != LOST:
            return status
        deaths, has_begun = (0, True) if has_measured else (deaths + 1, has_begun)
        if deaths == FRUITLESS:
            print(f"python -m benchmarks: {deaths} processes died at once", file=sys.stderr)
            return 1
        print("the process died; another one goes on behind it", file=sys.stderr)


def _arguments(argv: Sequence[str], left: float | None, has_begun: bool) -> list[str]:
    """Those of the process that measures. The first one makes way for its rows, the next go on."""
    budget = [] if left is None else ["--budget", f"{left:.0f}"]
    return [*argv, *budget, *(["--resume"] if has_begun else [])]


def _measure(arguments: Sequence[str], limits: Limits, left: float | None) -> tuple[int, bool]:
    """The exit status of a process, negative for a signal, also for the one that ends a step; and
    whether it came as far as a step."""
    assert limits.step is not None
    at_start = seen = _progress(limits.out)
    child = process.start([sys.executable, "-m", "benchmarks.kept", *arguments])
    try:
        begun = changed = time.monotonic()
        while (status := child.poll()) is None:
            time.sleep(POLL_SECONDS)
            now, is_seen = time.monotonic(), _progress(limits.out)
            changed, seen = (now, is_seen) if is_seen != seen else (changed, seen)
            if left is not None and now - begun > left:
                note.note_of(limits.out).unlink(missing_ok=True)  # it is not to blame
                print("the budget is spent; --resume goes on", file=sys.stderr)
                return OUT_OF_TIME, True
            if now - changed > limits.step:
                process.end(child)
                if seen != at_start:
                    note.stamp(limits.out, limits.step)
        return status, _progress(limits.out) != at_start
    finally:
        process.end(child)


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
