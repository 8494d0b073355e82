"""Time calls of several executors. Kernels by the GPU's own clock, the host and the whole call by
the host's.

What is timed is given as `prepare`: it makes everything ready, untimed, and returns the call. Calls
of all executors take turns, so that a GPU that grows warm slows all of them alike. On a GPU each
call finds an empty stream and an L2 cache full of other data.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from statistics import median, quantiles
from typing import TypeAlias, TypeVar

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks import cupti
from benchmarks.gpu_state import GpuState, Monitor, silent

Prepare: TypeAlias = Callable[[], Callable[[], object]]
Found = TypeVar("Found")

FLUSH_BYTES = 256 * 2**20  # four times an H200's L2
ROOF_BYTES = 2 * 2**30  # far more than L2, and room for two of them on small GPUs
MICROSECONDS = 1e6
TRIALS = 3
GPU_CALLS, GPU_WARM_UP = 50, 10
SLOW_CALLS, SLOW_WARM_UP = 10, 3  # of what takes SLOW_US
SLOW_US = 5_000.0
HOST_CALLS, HOST_WARM_UP = 7, 2
WAKE_SECONDS = 0.05  # of work, for clocks that fell while the host compiled
LONG_WAKE_SECONDS = 0.5  # from the clocks of a GPU that nobody used


@dataclass(frozen=True)
class Quantiles:
    """Of samples, in microseconds; None where nothing was measured."""

    p20: float | None
    p50: float | None
    p80: float | None


UNKNOWN = Quantiles(None, None, None)


@dataclass(frozen=True)
class Timing:
    """Microseconds per call. `kernel`, `kernels` (kernels, copies and memsets of a call) and `host`
    (until the call returns) are unknown on the host target, where `wall` is all there is.
    `kernel_trials` and `wall_trials` are the medians of each trial. `states` are those of the GPU
    right after calls of this executor."""

    kernel: Quantiles
    kernels: int | None
    host: Quantiles
    wall: Quantiles
    kernel_trials: tuple[float, ...]
    wall_trials: tuple[float, ...]
    samples: int
    states: tuple[GpuState, ...] = ()


def time_together(
    prepares: Sequence[Prepare], device: torch.device, monitor: Monitor = silent
) -> list[Timing | Exception | None]:
    """A timing per entry, or what it failed with: the others go on without it. None of those that
    could not go on, because it took the GPU with it."""
    field = Field(prepares, device)
    timings: dict[int, Timing] = {}
    try:
        timings = _on_gpu(field, device, monitor) if device.type == "cuda" else _on_host(field)
    except Exception as failure:  # of the profiler, or of a GPU that is lost
        field.failures |= dict.fromkeys(field.prepares, failure)
    return [
        field.failures.get(position, timings.get(position)) for position in range(len(prepares))
    ]


class Field:
    """Those that still run, by position. One that fails leaves; all leave with one that takes the
    GPU with it."""

    def __init__(self, prepares: Sequence[Prepare], device: torch.device) -> None:
        self.prepares = dict(enumerate(prepares))
        self.failures: dict[int, Exception] = {}
        self._device = device

    def each(self, act: Callable[[int, Prepare], Found]) -> dict[int, Found]:
        """The results of `act` on each, in turn."""
        found = {}
        for position, prepare in list(self.prepares.items()):
            try:
                found[position] = act(position, prepare)
            except Exception as failure:
                # What its frames hold, such as the memory that was not enough, goes with them.
                self.failures[position] = failure.with_traceback(None)
                del self.prepares[position]
                if is_lost(self._device):
                    self.prepares.clear()
                    return {}
        return found


def kernel_times(prepare: Prepare, device: torch.device, calls: int) -> list[list[float]]:
    """Microseconds of every kernel, copy and memset of so many calls, after as many untimed ones.
    Raises what a call, or the profiler, fails with."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device=device)
    field = Field([prepare], device)
    for _ in range(calls):
        field.each(lambda _, prepare: prepare()())
    found = _kernel_trial(field, flush, calls, silent) if field.prepares else {}
    for failure in field.failures.values():
        raise failure
    return [list(call) for call in cupti.with_kernels(found[0].calls)]


def _on_host(field: Field) -> dict[int, Timing]:
    for _ in range(HOST_WARM_UP):
        field.each(lambda _, prepare: prepare()())
    trials = [[field.each(_wall) for _ in range(HOST_CALLS)] for _ in range(TRIALS)]

    def timing(position: int, _: Prepare) -> Timing:
        found = [[samples[position] for samples in trial] for trial in trials]
        every = [sample for trial in found for sample in trial]
        medians = tuple(map(median, found))
        return Timing(UNKNOWN, None, UNKNOWN, quantiles_of(every), (), medians, len(every))

    return field.each(timing)


def _wall(position: int, prepare: Prepare) -> float:
    call = prepare()
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * MICROSECONDS


def _on_gpu(field: Field, device: torch.device, monitor: Monitor) -> dict[int, Timing]:
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device=device)
    _wake(flush, WAKE_SECONDS)

    def clock(position: int, prepare: Prepare) -> tuple[float, float]:
        return _host_and_wall(prepare, flush)

    walls = {position: wall for position, (_, wall) in field.each(clock).items()}
    is_slow = max(walls.values(), default=0.0) > SLOW_US
    calls, warm_up = (SLOW_CALLS, SLOW_WARM_UP) if is_slow else (GPU_CALLS, GPU_WARM_UP)
    for _ in range(warm_up):
        field.each(lambda _, prepare: prepare()())
    of_a_trial = range(ceil(calls / TRIALS))
    clocks = [[field.each(clock) for _ in of_a_trial] for _ in range(TRIALS)]
    trials = [_kernel_trial(field, flush, calls, monitor) for _ in range(TRIALS)]

    def timing(position: int, _: Prepare) -> Timing:
        walls = [[both[position][1] for both in trial] for trial in clocks]
        found = [trial[position] for trial in trials]
        every = cupti.with_kernels([call for trial in found for call in trial.calls])
        return Timing(
            kernel=quantiles_of([sum(call) for call in every]),
            kernels=round(median(map(len, every))),
            host=quantiles_of([both[position][0] for trial in clocks for both in trial]),
            wall=quantiles_of([wall for trial in walls for wall in trial]),
            kernel_trials=tuple(
                median(map(sum, cupti.with_kernels(trial.calls))) for trial in found
            ),
            wall_trials=tuple(map(median, walls)),
            samples=len(every),
            states=tuple(trial.state for trial in found if trial.state is not None),
        )

    return field.each(timing)


def _wake(flush: torch.Tensor, seconds: float) -> None:
    """Keep the device at work for so long."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        flush.zero_()
        torch.cuda.synchronize()


def _host_and_wall(prepare: Prepare, flush: torch.Tensor) -> tuple[float, float]:
    call = prepare()
    flush.zero_()
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    returned = time.perf_counter()
    torch.cuda.synchronize()
    done = time.perf_counter()
    return (returned - start) * MICROSECONDS, (done - start) * MICROSECONDS


@dataclass(frozen=True)
class _Trial:
    """Microseconds of every kernel of every call of one executor, and the GPU after one of them."""

    calls: Sequence[Sequence[float]]
    state: GpuState | None


def _kernel_trial(
    field: Field, flush: torch.Tensor, calls: int, monitor: Monitor
) -> dict[int, _Trial]:
    """The profiler's own cost falls on the host, whose time is therefore measured apart."""
    states: dict[int, GpuState | None] = {}

    def call(number: int, position: int, prepare: Prepare) -> None:
        ready = prepare()
        flush.zero_()
        torch.cuda.synchronize()
        cupti.marked(position, number, ready)
        if number == calls // 2:
            states[position] = monitor()

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for number in range(1 + calls):
            field.each(partial(call, number))
    found = cupti.durations(cupti.records(profiler))
    return {
        position: _Trial(found.get(position, []), states.get(position))
        for position in field.prepares
    }


def copy_gbps(device: torch.device) -> float | None:
    """10^9 bytes per second, read and written, of a large device copy: the roof of memory-bound
    kernels. None on the host target. Raises what the copy or CUPTI fails with."""
    if device.type != "cuda":
        return None
    # Of random bytes: a GPU may move zeros faster.
    source = torch.empty(ROOF_BYTES, dtype=torch.int8, device=device).random_(-128, 128)
    target = torch.empty_like(source)
    _wake(target, LONG_WAKE_SECONDS)
    (timing,) = time_together([lambda: lambda: target.copy_(source)], device)
    if isinstance(timing, Exception):
        raise timing
    assert timing is not None
    assert timing.kernel.p50 is not None
    return 2 * ROOF_BYTES / timing.kernel.p50 / 1e3


def is_lost(device: torch.device) -> bool:
    """Whether an earlier fault, such as an illegal address, fails all that this process asks of
    the device."""
    if device.type != "cuda":
        return False
    try:
        torch.cuda.synchronize(device)
    except RuntimeError:
        return True
    return False


def quantiles_of(samples: Sequence[float]) -> Quantiles:
    """Of two samples or more."""
    deciles = quantiles(samples, n=10, method="inclusive")
    return Quantiles(deciles[1], deciles[4], deciles[7])
