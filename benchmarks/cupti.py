"""Which kernels belong to which call: CUPTI's records, by way of torch.profiler.

A call stands in a range of its own on the host's clock and ends when the device is done, so a
kernel belongs to the call in whose range it starts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch.autograd import DeviceType
from torch.profiler import profile, record_function

_MARK = "benchmarks call "
LOST_PART = 0.1  # of the calls: so many records may be lost
_NANOSECONDS = 1e-3  # in microseconds
Window: TypeAlias = "tuple[int, int]"  # nanoseconds since 1970, which no float holds


@dataclass(frozen=True)
class Call:
    """The `number`-th call of the executor at `position`, and when it ran."""

    position: int
    number: int
    window: Window


def marked(position: int, number: int, call: Callable[[], object]) -> None:
    """Run a call and wait for the device, in a range that `durations` finds again."""
    with record_function(f"{_MARK}{position} {number}"):
        call()
        torch.cuda.synchronize()


def records(profiler: profile) -> Sequence[Any]:
    """The events of a profiler that has ended, as Kineto holds them: `profiler.events()` would make
    an object and a place in a tree of each, 20 times the work. Raises RuntimeError without any."""
    results = profiler.profiler and profiler.profiler.kineto_results
    if results is None:
        raise RuntimeError("the profiler recorded nothing")
    return tuple(results.events())


def durations(events: Iterable[Any]) -> dict[int, list[list[float]]]:
    """Microseconds of every kernel, copy and memset by executor and call. The first call of each
    executor, in which CUPTI may start, is dropped."""
    calls, work = [], []
    for event in events:
        name, device = event.name(), event.device_type()
        is_mark = name.startswith(_MARK)
        start, end = event.start_ns(), event.end_ns()
        if device == DeviceType.CPU and is_mark:
            position, number = map(int, name.removeprefix(_MARK).split())
            calls.append(Call(position, number, (start, end)))
        # Annotations (ours, and Inductor's names for compiled regions) appear on the device too.
        elif device == DeviceType.CUDA and not (is_mark or event.is_user_annotation()):
            work.append((start, (end - start) * _NANOSECONDS))
    calls.sort(key=lambda call: call.window)
    found: dict[int, list[list[float]]] = {}
    for call, kernels in zip(calls, by_window([c.window for c in calls], work), strict=True):
        if call.number:
            found.setdefault(call.position, []).append(kernels)
    return found


def by_window(windows: Sequence[Window], work: Sequence[tuple[int, float]]) -> list[list[float]]:
    """Durations of the `work` (start, duration) that starts in each of the sorted, disjoint windows
    (start, end); what starts in none, such as a flush, is dropped."""
    found: list[list[float]] = [[] for _ in windows]
    starts = [start for start, _ in windows]
    for start, duration in work:
        position = bisect_right(starts, start) - 1
        if position >= 0 and start <= windows[position][1]:
            found[position].append(duration)
    return found


def with_kernels(calls: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    """The calls that have kernels. Raises RuntimeError where more than LOST_PART have none."""
    found = [kernels for kernels in calls if kernels]
    if not found or len(calls) - len(found) > LOST_PART * len(calls):
        raise RuntimeError(
            f"CUPTI recorded no kernel in {len(calls) - len(found)} of {len(calls)} calls"
        )
    return found
