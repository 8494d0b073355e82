"""Time one pass. Kernels by the GPU's own clock, the host and the whole call by the host's.

What is timed is given as `prepare`: it makes everything ready, untimed, and returns the call.
On a GPU each call finds an empty stream and an L2 cache full of other data.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

Prepare = Callable[[], Callable[[], object]]

FLUSH_BYTES = 256 * 2**20  # four times an H200's L2
ROOF_BYTES = 2 * 2**30  # far more than L2, and room for two of them on small GPUs
MICROSECONDS = 1e6
MIB = 2**20
TRIALS = 3
GPU_CALLS, GPU_WARM_UP = 50, 10
HOST_CALLS, HOST_WARM_UP = 7, 2
_MARK = "benchmarks call "


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
    (until the call returns) are unknown on the host target, where `wall` is all there is. `trials`
    are medians of the clock that the row is judged by: kernels on a GPU, else wall time."""

    kernel: Quantiles
    kernels: int | None
    host: Quantiles
    wall: Quantiles
    trials: tuple[float, ...]
    samples: int


def time_pass(prepare: Prepare, device: torch.device) -> Timing:
    """Raises RuntimeError where CUPTI sees no kernel of a call on a GPU."""
    if device.type != "cuda":
        return _host_target(prepare)
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device=device)
    for _ in range(GPU_WARM_UP):
        prepare()()
    clocks = [_host_and_wall(prepare, flush) for _ in range(GPU_CALLS)]
    trials = [_kernel_samples(prepare, flush) for _ in range(TRIALS)]
    samples = [sum(call) for trial in trials for call in trial]
    return Timing(
        kernel=_quantiles(samples),
        kernels=round(median(len(call) for trial in trials for call in trial)),
        host=_quantiles([host for host, _ in clocks]),
        wall=_quantiles([wall for _, wall in clocks]),
        trials=tuple(median(map(sum, trial)) for trial in trials),
        samples=len(samples),
    )


def _host_target(prepare: Prepare) -> Timing:
    for _ in range(HOST_WARM_UP):
        prepare()()
    trials = [[_wall(prepare) for _ in range(HOST_CALLS)] for _ in range(TRIALS)]
    samples = [sample for trial in trials for sample in trial]
    medians = tuple(map(median, trials))
    return Timing(UNKNOWN, None, UNKNOWN, _quantiles(samples), medians, len(samples))


def _wall(prepare: Prepare) -> float:
    call = prepare()
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * MICROSECONDS


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


def _kernel_samples(prepare: Prepare, flush: torch.Tensor) -> list[list[float]]:
    """The microseconds of every kernel of every call of a trial. The profiler's own cost falls on
    the host, whose time is therefore measured apart; its first call, in which CUPTI starts, is
    dropped."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for position in range(1 + GPU_CALLS):
            call = prepare()
            flush.zero_()
            torch.cuda.synchronize()
            with record_function(f"{_MARK}{position}"):
                call()
                torch.cuda.synchronize()
    events = profiler.events() or ()
    windows = sorted(
        (event.time_range.start, event.time_range.end)
        for event in events
        if event.name.startswith(_MARK) and event.device_type == DeviceType.CPU
    )
    # Annotations (ours, and Inductor's names for compiled regions) appear on the device too.
    work = [
        (event.time_range.start, event.time_range.elapsed_us())
        for event in events
        if event.device_type == DeviceType.CUDA
        and not event.is_user_annotation
        and not event.name.startswith(_MARK)
    ]
    return by_window(windows[1:], work)


def by_window(
    windows: Sequence[tuple[float, float]], work: Sequence[tuple[float, float]]
) -> list[list[float]]:
    """Durations of the `work` (start, duration) that starts in each of the sorted, disjoint windows
    (start, end); what starts in none, such as a flush, is dropped. Raises RuntimeError for an empty
    window: its kernels were lost."""
    found: list[list[float]] = [[] for _ in windows]
    starts = [start for start, _ in windows]
    for start, duration in work:
        position = bisect_right(starts, start) - 1
        if position >= 0 and start <= windows[position][1]:
            found[position].append(duration)
    if not found or not all(found):
        raise RuntimeError(f"CUPTI recorded no kernel in {found.count([])} of {len(found)} calls")
    return found


def peak_mib(prepare: Prepare, device: torch.device) -> float | None:
    """Memory that a call needs at its peak beyond what was allocated before it; None on the host
    target."""
    if device.type != "cuda":
        return None
    call = prepare()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    results = call()
    torch.cuda.synchronize()
    peak = int(torch.cuda.max_memory_allocated(device))
    del results
    return (peak - int(before)) / MIB


def copy_gbps(device: torch.device) -> float | None:
    """10^9 bytes per second, read and written, of a large device copy: the roof of memory-bound
    kernels. None on the host target."""
    if device.type != "cuda":
        return None
    source = torch.zeros(ROOF_BYTES, dtype=torch.int8, device=device)
    target = torch.empty_like(source)
    timing = time_pass(lambda: lambda: target.copy_(source), device)
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


def _quantiles(samples: Sequence[float]) -> Quantiles:
    deciles = quantiles(samples, n=10, method="inclusive")
    return Quantiles(deciles[1], deciles[4], deciles[7])
