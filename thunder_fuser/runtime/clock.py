"""Clocks for work on a device: between events on the stream of a GPU, of calls on the host."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

import torch

Seconds: TypeAlias = Callable[[], float]  # waits until the device is done
Stop: TypeAlias = Callable[[], Seconds]
Clock: TypeAlias = Callable[[], Stop]  # starts: `stop = clock(); ...; seconds = stop()`


def clock_of(device: torch.device) -> Clock:
    """The clock for work on torch's current stream of `device`, which is the current one."""
    return _events if device.type == "cuda" else _calls


def _events() -> Stop:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()

    def stop() -> Seconds:
        end.record()

        def seconds() -> float:
            end.synchronize()
            return float(begin.elapsed_time(end)) / 1e3

        return seconds

    return stop


def _calls() -> Stop:
    begin = time.perf_counter()

    def stop() -> Seconds:
        found = time.perf_counter() - begin
        return lambda: found

    return stop
