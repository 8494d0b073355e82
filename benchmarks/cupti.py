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
from torch.profiler import record_function

_MARK = "benchmarks call "
Window: TypeAlias = "tuple[float, float]"


@dataclass(frozen=True)
class Call:
    """The `number`-th call of the executor at `position`, and when it ran (start, end)."""

    position: int
    number: int
    window: Window


def marked(position: int, number: int, call: Callable[[], object]) -> None:
    """Run a call and wait for the device, in a range that `durations` finds again."""
    with record_function(f"{_MARK}{position} {number}"):
        call()
        torch.cuda.synchronize()


def durations(events: Iterable[Any]) -> dict[int, list[list[float]]]:
    """Microseconds of every kernel, copy and memset by executor and call. The first call of each
    executor, in which CUPTI may start, is dropped."""
    calls, work = [], []
    for event in events:
        is_mark = event.name.startswith(_MARK)
        span = event.time_range
        if event.device_type == DeviceType.CPU and is_mark:
            position, number = map(int, event.name.removeprefix(_MARK).split())
            calls.append(Call(position, number, (span.start, span.end)))
        # Annotations (ours, and Inductor's names for compiled regions) appear on the device too.
        elif event.device_type == DeviceType.CUDA and not (is_mark or event.is_user_annotation):
            work.append((span.start, span.elapsed_us()))
    calls.sort(key=lambda call: call.window)
    found: dict[int, list[list[float]]] = {}
    for call, kernels in zip(calls, by_window([c.window for c in calls], work), strict=True):
        if call.number:
            found.setdefault(call.position, []).append(kernels)
    return found


def by_window(windows: Sequence[Window], work: Sequence[tuple[float, float]]) -> list[list[float]]:
    """Durations of the `work` (start, duration) that starts in each of the sorted, disjoint windows
    (start, end); what starts in none, such as a flush, is dropped."""
    found: list[list[float]] = [[] for _ in windows]
    starts = [start for start, _ in windows]
    for start, duration in work:
        position = bisect_right(starts, start) - 1
        if position >= 0 and start <= windows[position][1]:
            found[position].append(duration)
    return found


def require_kernels(calls: Sequence[Sequence[float]]) -> None:
    """Raise RuntimeError where a call has no kernel: they were lost."""
    empty = sum(not kernels for kernels in calls)
    if empty or not calls:
        raise RuntimeError(f"CUPTI recorded no kernel in {empty} of {len(calls)} calls")
