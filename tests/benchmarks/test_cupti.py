"""Kernels belong to the call in whose window they start."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from torch.autograd import DeviceType

from benchmarks.cupti import by_window, durations, require_kernels


@dataclass(frozen=True)
class Span:
    start: float
    end: float

    def elapsed_us(self) -> float:
        return self.end - self.start


@dataclass(frozen=True)
class Event:
    """What `profiler.events()` gives, as far as it is read."""

    name: str
    start: float
    end: float
    device_type: DeviceType = DeviceType.CUDA
    is_user_annotation: bool = False

    @property
    def time_range(self) -> Span:
        return Span(self.start, self.end)


def mark(position: int, number: int, start: float) -> Event:
    return Event(f"benchmarks call {position} {number}", start, start + 10, DeviceType.CPU)


# Two executors, three calls each; the first calls are not counted. Times are microseconds.
RECORDED = [
    mark(0, 0, 100.0),
    Event("kernel", 101.0, 109.0),
    mark(1, 0, 200.0),
    mark(0, 1, 300.0),
    Event("flush", 290.0, 295.0),
    Event("kernel", 301.0, 303.0),
    Event("kernel", 303.0, 306.5),
    mark(1, 1, 400.0),
    Event("benchmarks call 1 1", 400.0, 409.0),  # the range as the device shows it
    Event("Torch-Compiled Region", 401.0, 409.0, is_user_annotation=True),
    Event("kernel", 402.0, 406.0),
    Event("cudaLaunchKernel", 401.0, 402.0, DeviceType.CPU),
    mark(0, 2, 500.0),
    Event("kernel", 501.0, 502.0),
    mark(1, 2, 600.0),
    Event("Memset", 600.0, 600.5),
    Event("kernel", 602.0, 605.0),
]


def test_recorded_events_are_given_to_executors_and_calls() -> None:
    assert durations(RECORDED) == {0: [[2.0, 3.5], [1.0]], 1: [[4.0], [0.5, 3.0]]}


def test_the_order_of_events_does_not_matter() -> None:
    backwards = durations(RECORDED[::-1])
    assert {k: [sorted(call) for call in calls] for k, calls in backwards.items()} == {
        0: [[2.0, 3.5], [1.0]],
        1: [[4.0], [0.5, 3.0]],
    }


def test_work_is_given_to_its_call_and_flushes_to_none() -> None:
    windows = [(10.0, 20.0), (30.0, 40.0)]
    work = [(5.0, 9.0), (11.0, 2.0), (15.0, 3.0), (25.0, 9.0), (31.0, 4.0), (41.0, 9.0)]
    assert by_window(windows, work) == [[2.0, 3.0], [4.0]]


def test_a_call_whose_kernels_were_lost_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="no kernel in 1 of 2 calls"):
        require_kernels([[2.0], []])
