"""The loop over jobs. A row that fails says why and the next one runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.gpu_state import Monitor, silent
from benchmarks.jobs import Job, Note
from benchmarks.resume import Running
from benchmarks.rows import Row

DIED = "ProcessDied"


def measured(
    jobs: Sequence[Job], note: Note, monitor: Monitor = silent, culprit: Running | None = None
) -> Iterator[Row]:
    """The rows of all jobs. `note` is told what runs, before it runs. `culprit` is what ran when an
    earlier process died: its rows are errors and it is not run again."""
    for job in jobs:
        job, dead = _without(replace(job, note=note, monitor=monitor), culprit)
        yield from dead
        if job.missing:
            yield from job.suite.measure(job)


def _without(job: Job, culprit: Running | None) -> tuple[Job, list[Row]]:
    if culprit is None:
        return job, []
    dead = [_died(row, culprit) for row in job.rows if culprit.ran(row)]
    kept = tuple(
        (executor, rows)
        for executor, rows in job.missing
        if not any(culprit.ran(row) for row in rows)
    )
    return replace(job, missing=kept), dead


def _died(row: Row, culprit: Running) -> Row:
    which = "it" if culprit.executor else "this workload"
    message = f"the process died while {which} ran; to try again, delete this row"
    return replace(row, status="error", error_type=DIED, error_msg=message)
