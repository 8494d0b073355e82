"""Calls of several executors take turns; one that fails leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
import torch
from torch.autograd import DeviceType

from benchmarks import cupti, measure
from benchmarks.gpu_state import GpuState, Monitor, silent
from benchmarks.measure import (
    GPU_CALLS,
    GPU_WARM_UP,
    HOST_CALLS,
    HOST_WARM_UP,
    TRIALS,
    Prepare,
    Timing,
    time_together,
)
from tests.benchmarks.test_cupti import Event

CPU = torch.device("cpu")


def test_calls_take_turns() -> None:
    order: list[str] = []

    def calling(name: str) -> Prepare:
        return lambda: lambda: order.append(name)

    found = time_together([calling("a"), calling("b")], CPU)
    assert order == (HOST_WARM_UP + TRIALS * HOST_CALLS) * ["a", "b"]
    for timing in found:
        assert isinstance(timing, Timing)
        assert timing.samples == TRIALS * HOST_CALLS
        assert len(timing.wall_trials) == TRIALS
        assert timing.kernel.p50 is timing.kernels is timing.host.p50 is None


def test_one_that_fails_midway_leaves_the_others_alone() -> None:
    calls = 0

    def failing() -> Callable[[], object]:
        nonlocal calls
        calls += 1
        if calls == HOST_WARM_UP + 3:
            raise ValueError("no more")
        return lambda: None

    failed, sound = time_together([failing, lambda: lambda: None], CPU)
    assert isinstance(failed, ValueError)
    assert isinstance(sound, Timing)
    assert sound.samples == TRIALS * HOST_CALLS
    assert calls == HOST_WARM_UP + 3


@dataclass
class RecordedGpu:
    """A GPU and Kineto: a clock in microseconds, and the events that are seen."""

    now: float = 0.0
    events_seen: list[Event] = field(default_factory=list)

    def launch(self, name: str, duration: float) -> None:
        self.now += 1
        self.events_seen.append(Event(name, self.now, self.now + duration))
        self.now += duration

    @contextmanager
    def record_function(self, name: str) -> Iterator[None]:
        begin = self.now
        yield
        self.now += 1
        self.events_seen.append(Event(name, begin, self.now, DeviceType.CPU))
        self.now += 1

    @contextmanager
    def profile(self, **_: object) -> Iterator[SimpleNamespace]:
        self.events_seen.clear()
        results = SimpleNamespace(events=lambda: self.events_seen)
        yield SimpleNamespace(profiler=SimpleNamespace(kineto_results=results))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> RecordedGpu:
    made = RecordedGpu()
    monkeypatch.setattr(measure, "profile", made.profile)
    monkeypatch.setattr(cupti, "record_function", made.record_function)
    monkeypatch.setattr(measure, "FLUSH_BYTES", 8)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    monkeypatch.setattr(torch, "empty", lambda *_, **__: Flush(made))
    return made


@dataclass(frozen=True)
class Flush:
    gpu: RecordedGpu

    def zero_(self) -> None:
        self.gpu.launch("flush", 50.0)


@dataclass(frozen=True)
class Cuda:
    """As much of a device as is asked for."""

    type: str = "cuda"


def timed(*prepares: Prepare, monitor: Monitor = silent) -> list[Timing | Exception | None]:
    return time_together(prepares, Cuda(), monitor)  # type: ignore[arg-type]


def test_on_a_gpu_each_gets_its_own_kernels(gpu: RecordedGpu) -> None:
    def two() -> Callable[[], object]:
        gpu.launch("untimed", 9.0)
        return lambda: (gpu.launch("a", 2.0), gpu.launch("b", 3.0))

    states = iter(range(100))
    one, other = timed(
        two,
        lambda: lambda: gpu.launch("c", 7.0),
        monitor=lambda: GpuState(sm_clock_mhz=float(next(states))),
    )
    assert isinstance(one, Timing)
    assert isinstance(other, Timing)
    assert (one.kernel.p50, one.kernels, one.kernel_trials) == (5.0, 2, (5.0, 5.0, 5.0))
    assert (other.kernel.p50, other.kernels, other.samples) == (7.0, 1, TRIALS * GPU_CALLS)
    assert [state.sm_clock_mhz for state in one.states] == [0.0, 2.0, 4.0]
    assert [state.sm_clock_mhz for state in other.states] == [1.0, 3.0, 5.0]
    assert len(one.wall_trials) == TRIALS
    assert one.host.p50 is not None


def test_on_a_gpu_one_without_kernels_or_with_a_fault_leaves(gpu: RecordedGpu) -> None:
    calls = iter(range(GPU_WARM_UP + GPU_CALLS + 20))

    def faulty() -> Callable[[], object]:
        if next(calls, None) is None:
            raise RuntimeError("an illegal address")
        return lambda: gpu.launch("a", 2.0)

    lost, fault, sound = timed(lambda: lambda: None, faulty, lambda: lambda: gpu.launch("c", 7.0))
    assert "CUPTI recorded no kernel in 150 of 150 calls" in str(lost)
    assert str(fault) == "an illegal address"
    assert isinstance(sound, Timing)
    assert sound.kernel.p50 == 7.0


def test_one_that_takes_the_gpu_with_it_fails_alone(
    gpu: RecordedGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an illegal address all calls of CUDA fail; those behind it are measured again later."""
    is_lost = False

    def synchronize(*_: object) -> None:
        if is_lost:
            raise RuntimeError("an illegal address")

    def lose() -> None:
        nonlocal is_lost
        is_lost = gpu.now > 50_000
        gpu.launch("a", 2.0)

    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
    before, culprit, behind = timed(
        lambda: lambda: gpu.launch("c", 7.0), lambda: lose, lambda: lambda: gpu.launch("c", 7.0)
    )
    assert str(culprit) == "an illegal address"
    assert before is behind is None


def test_where_the_profiler_fails_all_fail(
    gpu: RecordedGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def profile(**_: object) -> Iterator[None]:
        raise RuntimeError("no CUPTI")
        yield

    monkeypatch.setattr(measure, "profile", profile)
    assert [str(one) for one in timed(*2 * [lambda: lambda: gpu.launch("c", 7.0)])] == (
        2 * ["no CUPTI"]
    )


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_calls_of_one_and_two_kernels_are_counted_and_timed() -> None:
    x = torch.zeros(2**26, device="cuda")  # 256 MiB: at least 50 us of any GPU's bandwidth
    one, two = time_together(
        [lambda: lambda: x.add_(1), lambda: lambda: x.add_(1).mul_(2)], x.device
    )
    assert isinstance(one, Timing)
    assert isinstance(two, Timing)
    assert (one.kernels, two.kernels) == (1, 2)
    assert one.kernel.p50 is not None
    assert two.kernel.p50 is not None
    assert two.wall.p50 is not None
    assert 50 < one.kernel.p50 < two.kernel.p50 < two.wall.p50
