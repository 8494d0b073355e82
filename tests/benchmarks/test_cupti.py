"""Kernels belong to the call in whose window they start."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

from benchmarks.cupti import by_window, durations, records, with_kernels

NOW = 1_763_600_000_000_000_000  # nanoseconds since 1970, as Kineto counts


@dataclass(frozen=True)
class Event:
    """An event as Kineto gives it, as far as it is read; times are microseconds."""

    label: str
    start: float
    end: float
    device: DeviceType = DeviceType.CUDA
    is_annotation: bool = False

    def name(self) -> str:
        return self.label

    def start_ns(self) -> int:
        return NOW + round(self.start * 1000)

    def end_ns(self) -> int:
        return NOW + round(self.end * 1000)

    def device_type(self) -> DeviceType:
        return self.device

    def is_user_annotation(self) -> bool:
        return self.is_annotation


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
    Event("Torch-Compiled Region", 401.0, 409.0, is_annotation=True),
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


def test_times_are_as_fine_as_kinetos() -> None:
    events = [mark(0, 1, 100.0), Event("kernel", 101.0, 102.217)]
    assert durations(events) == {0: [[pytest.approx(1.217, abs=1e-9)]]}


def test_streams_that_overlap_are_summed() -> None:
    events = [mark(0, 1, 100.0), Event("kernel", 101.0, 105.0), Event("Memcpy DtoD", 102.0, 106.0)]
    assert durations(events) == {0: [[4.0, 4.0]]}


def test_torchs_profiler_gives_the_marks_and_events_of_this_kind() -> None:
    """The real library, without the kernels that a GPU would add."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for number in range(3):
            with record_function(f"benchmarks call 4 {number}"):
                torch.ones(3).add_(1)
    events = records(profiler)
    marks = [event for event in events if event.name().startswith("benchmarks call")]
    assert [event.name()[-3:] for event in marks] == ["4 0", "4 1", "4 2"]
    added = [event for event in events if event.name() == "aten::add_"]
    for mark_, add in zip(marks, added, strict=True):
        assert mark_.start_ns() < add.start_ns() < add.end_ns() < mark_.end_ns()
        assert mark_.device_type() == DeviceType.CPU
        assert add.is_user_annotation() is False
    on_device = [
        Event("kernel", (add.start_ns() - NOW) / 1000, (add.end_ns() - NOW) / 1000) for add in added
    ]
    assert [len(calls) for calls in durations([*events, *on_device])[4]] == [1, 1]


def test_a_profiler_that_never_ran_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="recorded nothing"):
        records(profile(activities=[ProfilerActivity.CPU]))


def test_the_order_of_events_does_not_matter() -> None:
    backwards = durations(RECORDED[::-1])
    assert {k: [sorted(call) for call in calls] for k, calls in backwards.items()} == {
        0: [[2.0, 3.5], [1.0]],
        1: [[4.0], [0.5, 3.0]],
    }


def test_work_is_given_to_its_call_and_flushes_to_none() -> None:
    windows = [(10, 20), (30, 40)]
    work = [(5, 9.0), (11, 2.0), (15, 3.0), (25, 9.0), (31, 4.0), (41, 9.0)]
    assert by_window(windows, work) == [[2.0, 3.0], [4.0]]


def test_a_few_calls_may_lose_their_kernels_but_not_many() -> None:
    assert with_kernels([[2.0]] * 19 + [[]]) == [[2.0]] * 19
    with pytest.raises(RuntimeError, match="no kernel in 1 of 2 calls"):
        with_kernels([[2.0], []])
    with pytest.raises(RuntimeError, match="no kernel in 0 of 0 calls"):
        with_kernels([])
