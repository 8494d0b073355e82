"""Say what is measured: a bar below the lines on a terminal, the lines alone elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TextIO

from benchmarks.note import Running
from benchmarks.rows import Row


class Lines:
    """A line per row; of rows that one executor skips for one reason, for the first."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._told = stream, Told()

    def running(self, running: Running) -> None:
        """Nothing: a line tells what is done."""

    def row(self, row: Row) -> None:
        if self._told.is_new(row):
            print(line(row), file=self._stream, flush=True)


class Bar:
    """The lines, and below them how many rows are left and what runs."""

    def __init__(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = (
            *(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()),
            TextColumn("{task.description}", markup=False),
        )
        self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task, self._told = self.bar.add_task("", total=total), Told()

    def running(self, running: Running) -> None:
        text = f"{running.workload} {running.sizes} {running.executor or 'all in turns'}"
        self.bar.update(self._task, description=text)

    def row(self, row: Row) -> None:
        if self._told.is_new(row):
            self.bar.console.print(line(row), markup=False, highlight=False, soft_wrap=True)
        self.bar.advance(self._task)


class Told:
    """Which executors were said to skip rows, and why."""

    def __init__(self) -> None:
        self._skipped: set[tuple[str, str | None]] = set()

    def is_new(self, row: Row) -> bool:
        """False for a row that the same executor skips for the same reason as one before."""
        if row.status != "skipped":
            return True
        reason = row.executor, row.error_msg
        is_new = reason not in self._skipped
        self._skipped.add(reason)
        return is_new


@contextmanager
def progress(total: int, is_alone: bool = True) -> Iterator[Lines | Bar]:
    """For `total` rows, on stderr, which no bar can share with others."""
    if not (is_alone and sys.stderr.isatty() and find_spec("rich")):
        yield Lines(sys.stderr)
        return
    shown = Bar(total)
    with shown.bar:
        yield shown


def line(row: Row) -> str:
    """A row on a terminal: the clock it is judged by, and its error."""
    head = f"{row.suite:8} {row.workload:18} {row.executor:16} {row.phase:9}"
    if row.status != "ok":
        once = " (said once)" if row.status == "skipped" else ""
        return f"{head} {row.status}: {row.error_msg}{once}"
    clocks = (
        (row.kernel_us_p50, "us"),
        (row.host_us_p50, "us host"),
        (row.wall_us_p50, "us wall"),
    )
    told = [f"{time:10.1f} {clock}" for time, clock in clocks if time is not None][:1]
    if row.first_call_s_cold is not None and row.first_call_s_warm is not None:
        told += [f"{row.first_call_s_cold:8.2f} s cold {row.first_call_s_warm:6.2f} s warm"]
    if row.err_vs_fp64 is not None:
        told += [f"error {row.err_vs_fp64:.1e}"]
    return "  ".join([head, *told])
