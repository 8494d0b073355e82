"""A job: one workload in one size, and the rows of it that are to be measured."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch

from benchmarks.cases import Sizes, Workload, sizes_text
from benchmarks.executors import Executor
from benchmarks.gpu_state import Monitor, silent
from benchmarks.note import Running
from benchmarks.rows import Key, Row

MESSAGE_LIMIT = 500  # characters of an error that a row keeps
Note: TypeAlias = Callable[[Running], None]


def _ignore(running: Running) -> None:
    pass


@dataclass(frozen=True)
class Suite:
    """Workloads that are measured alike. `measure` gives the rows of a job one by one, failed and
    skipped ones too; it raises nothing. `by_wall` says that rows are judged by the time of the
    whole call, not by that of its kernels. `row_seconds` is about what a row takes on an H200."""

    name: str
    summary: str
    workloads: Sequence[Workload]
    measure: Callable[[Job], Iterator[Row]]
    by_wall: bool = False
    row_seconds: float = 1.0


@dataclass(frozen=True)
class Job:
    """`missing` holds, for each executor, a row per phase in which only the identity is known.
    `note` is told what runs, before it runs: it may take the process down."""

    suite: Suite
    workload: Workload
    sizes: Sizes
    device: torch.device
    missing: tuple[tuple[Executor, tuple[Row, ...]], ...]
    note: Note = _ignore
    monitor: Monitor = silent

    def notice(self, executor: str) -> None:
        """Say that `executor` runs now; empty for all of them, which may be one."""
        text = sizes_text(self.sizes)
        if len(self.missing) == 1:
            executor = self.missing[0][0].name
        self.note(Running(self.suite.name, self.workload.name, text, executor))

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(row for _, rows in self.missing for row in rows)


def jobs(
    suites: Sequence[Suite],
    executors: Sequence[Executor],
    device: torch.device,
    is_quick: bool,
    done: Collection[Key] = (),
) -> list[Job]:
    """Everything that is not in `done`, in order."""
    found = []
    for suite in suites:
        for workload in suite.workloads:
            for sizes in workload.chosen(is_quick):
                missing = tuple(
                    (executor, rows)
                    for executor in executors
                    if (rows := _blanks(suite, workload, sizes, executor, done))
                )
                if missing:
                    found.append(Job(suite, workload, sizes, device, missing))
    return found


def _blanks(
    suite: Suite, workload: Workload, sizes: Sizes, executor: Executor, done: Collection[Key]
) -> tuple[Row, ...]:
    rows = (
        Row(
            suite=suite.name,
            workload=workload.name,
            executor=executor.name,
            phase=phase,
            dtype=str(workload.dtype).removeprefix("torch."),
            sizes=sizes_text(sizes),
            status="ok",
            executor_options=executor.options(workload.is_dynamic),
            seq_len=sizes.get("length"),
        )
        for phase in workload.phases
    )
    return tuple(row for row in rows if row.key not in done)


def failed(row: Row, failure: Exception) -> Row:
    """The row of what raised."""
    status = "oom" if isinstance(failure, torch.OutOfMemoryError) else "error"
    message = " ".join(str(failure).split())[:MESSAGE_LIMIT]
    return replace(row, status=status, error_type=type(failure).__name__, error_msg=message)


def skipped(row: Row, reason: Exception) -> Row:
    """The row of what cannot be measured here."""
    return replace(row, status="skipped", error_msg=" ".join(str(reason).split())[:MESSAGE_LIMIT])
