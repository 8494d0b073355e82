"""The loop over jobs. A row that fails says why and the next one runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from benchmarks.gpu_state import Monitor, silent
from benchmarks.jobs import Job, Note
from benchmarks.note import Running
from benchmarks.pace import FIRST_SECONDS, Pace
from benchmarks.rows import Row
from benchmarks.share import expected_seconds

DIED, STOPPED = "ProcessDied", "Stopped"


def measured(
    jobs: Sequence[Job],
    note: Note,
    monitor: Monitor = silent,
    culprit: Running | None = None,
    pace: Pace | None = None,
    take: Callable[[Job], bool] = lambda job: True,
) -> Iterator[Row]:
    """The rows of all jobs, as many as the pace allows. `note` is told what runs, before it runs.
    `culprit` is what ran when an earlier process died: its rows are failures and it is not run
    again; where all executors took turns, each is run alone. A job that `take` leaves to others is
    passed over."""
    pace = pace or Pace()
    for planned in jobs:
        told = replace(planned, note=note, monitor=monitor)
        kept, dead = _without(told, culprit)
        yield from dead
        for job in _suspects(kept, culprit):
            if not (pace.allows(job.suite.name, _first(job)) and take(planned)):
                break
            yield from job.suite.measure(job)
            pace.ended(job.suite.name)


def _first(job: Job) -> float:
    """Seconds for the first job of a suite: twice what it takes on an H200."""
    return min(FIRST_SECONDS, 2 * expected_seconds(job))


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
