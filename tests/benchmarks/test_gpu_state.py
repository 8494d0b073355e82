"""What NVML tells, by a recorded one."""

from __future__ import annotations

import pytest
import torch

from benchmarks.gpu_state import GpuState, monitor, read, silent, summary


class NVMLError(Exception):
    pass


class RecordedNvml:
    """An H200 under load, which does not tell its temperature."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2
    NVMLError = NVMLError

    def __init__(self, reasons: int) -> None:
        self.reasons = reasons

    def nvmlDeviceGetClockInfo(self, handle: object, clock: int) -> int:
        return {1: 1980, 2: 3201}[clock]

    def nvmlDeviceGetPowerUsage(self, handle: object) -> int:
        return 412_345

    def nvmlDeviceGetTemperature(self, handle: object, sensor: int) -> int:
        raise NVMLError("Not Supported")

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: object) -> int:
        return self.reasons


@pytest.mark.parametrize(
    ("reasons", "throttled", "locked"),
    [
        (0x0, False, False),
        (0x1, False, False),  # idle
        (0x4, True, False),  # power cap
        (0x2, False, True),  # clocks set by a person
        (0x22, True, True),  # and too hot for them
    ],
)
def test_a_state_is_read_and_its_reasons_understood(
    reasons: int, throttled: bool, locked: bool
) -> None:
    state = read(RecordedNvml(reasons), object())
    assert state == GpuState(1980.0, 3201.0, pytest.approx(412.345), None, reasons)
    assert (state.throttled, state.clocks_locked) == (throttled, locked)


def test_a_summary_has_medians_and_every_reason() -> None:
    states = [
        GpuState(1980.0, 3201.0, 300.0, None, 0x1),
        GpuState(1700.0, 3201.0, 500.0, None, 0x4),
        GpuState(1900.0, 3201.0, None, None, None),
    ]
    found = summary(states)
    assert found == GpuState(1900.0, 3201.0, 400.0, None, 0x5)
    assert found.throttled


def test_nothing_is_known_without_a_gpu() -> None:
    assert monitor(torch.device("cpu")) is silent
    assert summary([]) == GpuState()
    assert summary([]).throttled is None
