"""Executors side by side: each compiles a workload and is judged; then all are timed in turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from benchmarks.cases import BACKWARD, INFERENCE, STEP, Case
from benchmarks.executors import Absent, Executor, forget_compilations
from benchmarks.fill import with_costs, with_timing, with_tokens
from benchmarks.jobs import Job, failed, skipped
from benchmarks.measure import Prepare, time_together
from benchmarks.memory import peak_mib, saved_mib
from benchmarks.numerics import Reference, Results, gradients, reference, starts, tensors
from benchmarks.rows import Row
from benchmarks.runner import Runner, Stopwatch


def measure(job: Job) -> Iterator[Row]:
    """The rows of a job whose executors take turns, a call each."""
    return measured(job, _timed)


@dataclass(frozen=True)
class Entry:
    """A phase of an executor that has run and was judged, ready to be timed."""

    row: Row
    prepare: Prepare


def measured(job: Job, timed: Callable[[Sequence[Entry], Job], Iterator[Row]]) -> Iterator[Row]:
    """The rows of a job: first what fails or is absent, then phase by phase what was `timed`."""
    entries: list[Entry] = []
    for found in _all_entered(job):
        if isinstance(found, Entry):
            entries.append(found)
        else:
            yield found
    for phase in job.workload.phases:
        yield from timed([entry for entry in entries if entry.row.phase == phase], job)


def _all_entered(job: Job) -> Iterator[Row | Entry]:
    """Each phase of each executor: an entry of what runs, a row of what fails or is absent."""
    try:
        forget_compilations()
        case = job.workload.case(job.device, job.sizes)
        expected = reference(case, job.workload.phases)
    except (Absent, ImportError) as reason:
        yield from (skipped(row, reason) for row in job.rows)
        return
    except Exception as failure:
        yield from (failed(row, failure) for row in job.rows)
        return
    for executor, rows in job.missing:
        job.notice(executor.name)
        yield from _entered(executor, rows, case, expected, job.device)
        if job.device.type == "cuda":
            torch.cuda.empty_cache()
    job.notice("")


def _entered(
    executor: Executor,
    rows: Sequence[Row],
    case: Case,
    expected: Reference,
    device: torch.device,
) -> Iterator[Row | Entry]:
    try:
        function = executor.load(device)(case, executor.keywords(False))
    except (Absent, ImportError) as reason:
        yield from (skipped(row, reason) for row in rows)
        return
    except Exception as failure:
        yield from (failed(row, failure) for row in rows)
        return
    runner = Runner.of(function, case, expected.cotangents, executor.writes_inputs)
    for row in rows:
        try:
            costs = executor.watch(function)
            judged = with_costs(_judged(row, runner, expected, device), costs())
            yield Entry(executor.describe(judged, function), runner.prepare(row.phase))
        except Exception as failure:
            yield failed(row, failure)


def _judged(row: Row, runner: Runner, expected: Reference, device: torch.device) -> Row:
    """With the seconds of a first call and how far its results are from those wanted."""
    clock = Stopwatch(device)
    inputs, phase = runner.fresh(), row.phase
    saved: float | None = None
    with torch.set_grad_enabled(phase != INFERENCE), clock:
        outputs = tensors(runner.function(*inputs))
    found = Results(outputs)
    if phase != INFERENCE:
        saved = saved_mib(outputs, (*inputs, *runner.wanted))
    if phase in (BACKWARD, STEP):
        if phase == BACKWARD:
            clock.reset()
        with clock:
            begin = starts(runner.case, outputs)
            found = Results(outputs, begin, gradients(begin, runner.wanted, runner.cotangents))
    return replace(
        row,
        io_bytes_min=_least_bytes(runner.case, phase),
        saved_for_backward_mib=None if phase == BACKWARD else saved,
        first_call_s=clock.seconds,
        err_vs_fp64=expected.error(found, phase),
        err_eager_vs_fp64=expected.eager[phase],
    )


def _least_bytes(case: Case, phase: str) -> int | None:
    match phase:
        case "forward" | "inference":
            return case.forward_bytes
        case "backward":
            return case.backward_bytes
    return None


def _timed(entries: Sequence[Entry], job: Job) -> Iterator[Row]:
    sound: list[Entry] = []
    for entry in entries:
        try:
            peak = peak_mib(entry.prepare, job.device)
        except Exception as failure:
            yield failed(entry.row, failure)
            continue
        sound.append(replace(entry, row=replace(entry.row, peak_alloc_mib=peak)))
    timings = time_together([entry.prepare for entry in sound], job.device, job.monitor)
    for entry, timing in zip(sound, timings, strict=True):
        if isinstance(timing, Exception):
            yield failed(entry.row, timing)
        elif timing is not None:
            yield with_tokens(with_timing(entry.row, timing, job.suite.by_wall), job.sizes)
