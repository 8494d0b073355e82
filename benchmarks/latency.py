"""What a steady call costs the host: small inputs, with and without a gradient.

Calls come in bursts without a wait between them, as in a training loop; a sample is the mean of a
burst. On the host target the kernels run inside of the call, so that only the whole call can be
timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from statistics import median

import torch

from benchmarks import kernels, rope
from benchmarks.cases import FORWARD, INFERENCE, Case, Make, Sizes, Tensors, Workload, nbytes
from benchmarks.contest import Entry, measured
from benchmarks.jobs import Job, failed
from benchmarks.measure import MICROSECONDS, TRIALS, UNKNOWN, Field, quantiles_of
from benchmarks.rows import Row

BURSTS = 7  # of a trial
GPU_BURST, HOST_BURST = 40, 10  # calls; fewer than a stream's queue holds
WARM_UP = 10  # calls
PHASES = (FORWARD, INFERENCE)


def measure(job: Job) -> Iterator[Row]:
    """The rows of a job whose executors take turns, a burst each."""
    return measured(job, _timed)


def _timed(entries: Sequence[Entry], job: Job) -> Iterator[Row]:
    is_gpu = job.device.type == "cuda"
    field = Field([entry.prepare for entry in entries], job.device)
    field.each(lambda _, prepare: [prepare()() for _ in range(WARM_UP)])
    burst = partial(_burst, GPU_BURST if is_gpu else HOST_BURST, is_gpu)
    trials = [
        [field.each(lambda _, prepare: burst(prepare())) for _ in range(BURSTS)]
        for _ in range(TRIALS)
    ]
    for position, entry in enumerate(entries):
        if position in field.failures:
            yield failed(entry.row, field.failures[position])
        elif position in field.prepares:
            found = [[samples[position] for samples in trial] for trial in trials]
            yield _told(entry.row, found, is_gpu)


def _burst(calls: int, is_gpu: bool, call: Callable[[], object]) -> float:
    """Microseconds of one of `calls` calls, until the last one returns."""
    if is_gpu:
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls * MICROSECONDS


def _told(row: Row, trials: Sequence[Sequence[float]], is_gpu: bool) -> Row:
    every = [sample for trial in trials for sample in trial]
    found = quantiles_of(every)
    host, wall = (found, UNKNOWN) if is_gpu else (UNKNOWN, found)
    return replace(
        row,
        host_us_p20=host.p20,
        host_us_p50=host.p50,
        host_us_p80=host.p80,
        wall_us_p20=wall.p20,
        wall_us_p50=wall.p50,
        wall_us_p80=wall.p80,
        trial_us=tuple(map(median, trials)),
        n_samples=len(every),
    )


def many_tensors(make: Make, *, tensors: int, columns: int) -> Case:
    """The product of each input (columns,) with the next: what every further tensor costs."""

    def function(*inputs: torch.Tensor) -> Tensors:
        return tuple(x * y for x, y in zip(inputs, inputs[1:] + inputs[:1], strict=True))

    inputs = tuple(make.random(columns) for _ in range(tensors))
    return Case(function, inputs, 2 * nbytes(*inputs), 3 * nbytes(*inputs))


def _workload(name: str, build: Callable[..., Case], **sizes: int) -> Workload:
    found: Sizes = sizes
    return Workload(name, build, (found,), (found,), phases=PHASES)


WORKLOADS: Sequence[Workload] = (
    _workload("pointwise", kernels.pointwise, rows=16, columns=1024),
    _workload("rmsnorm", kernels.rms_norm, rows=16, columns=1024),
    _workload("softmax", kernels.softmax, rows=16, columns=1024),
    Workload(
        "rope",
        rope.litgpt,
        ({"batch": 2, "length": 1024, "heads": 16, "groups": 4, "head_size": 32, "rotated": 8},),
        ({"batch": 1, "length": 16, "heads": 4, "groups": 2, "head_size": 32, "rotated": 8},),
        phases=PHASES,
    ),
    _workload("many_tensors", many_tensors, tensors=20, columns=64),
)
