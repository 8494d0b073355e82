"""The loop over jobs. A row that fails says why and the next one runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.gpu_state import Monitor, silent
from benchmarks.jobs import Job, Note
from benchmarks.note import Running
from benchmarks.pace import Pace
from benchmarks.rows import Row

DIED, STOPPED = "ProcessDied", "Stopped"


def measured(
    jobs: Sequence[Job],
    note: Note,
    monitor: Monitor = silent,
    culprit: Running | None = None,
    pace: Pace | None = None,
) -> Iterator[Row]:
    """The rows of all jobs, as many as the pace allows. `note` is told what runs, before it runs.
    `culprit` is what ran when an earlier process died: its rows are failures and it is not run
    again; where all executors took turns, each is run alone."""
    pace = pace or Pace()
    for planned in jobs:
        told = replace(planned, note=note, monitor=monitor)
        kept, dead = _without(told, culprit)
        yield from dead
        for job in _suspects(kept, culprit):
            if not pace.allows(job.suite.name):
                return
            yield from job.suite.measure(job)
            pace.ended(job.suite.name)


def _without(job: Job, culprit: Running | None) -> tuple[Job, list[Row]]:
    """The job without the executor that is to blame, and the rows of that."""
    if culprit is None or not culprit.executor:
        return job, []
    dead = [_died(row, culprit) for row in job.rows if culprit.ran(row)]
    kept = tuple(
        (executor, rows)
        for executor, rows in job.missing
        if not any(culprit.ran(row) for row in rows)
    )
    return replace(job, missing=kept), dead


def _suspects(job: Job, culprit: Running | None) -> Sequence[Job]:
    """The job, or a job of each executor: to find out which one took the process down."""
    if not job.missing:
        return ()
    if culprit is None or culprit.executor or not any(map(culprit.ran, job.rows)):
        return (job,)
    return [replace(job, missing=(one,)) for one in job.missing]


def _died(row: Row, culprit: Running) -> Row:
    again = "; to try again, delete this row"
    if culprit.limit is not None:
        message = f"it was stopped after {culprit.limit:g} s without an end{again}"
        return replace(row, status="timeout", error_type=STOPPED, error_msg=message)
    message = f"the process died while it ran{again}"
    return replace(row, status="error", error_type=DIED, error_msg=message)
