"""What NVML tells, by a recorded one."""

from __future__ import annotations

import sys
from types import SimpleNamespace

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

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> object:
        if uuid != "GPU-6a1b":
            raise NVMLError(f"Not Found: {uuid}")
        return object()

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


@pytest.mark.parametrize("uuid", ["6a1b", "GPU-6a1b"])
def test_the_gpu_that_torch_uses_is_asked(monkeypatch: pytest.MonkeyPatch, uuid: str) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", RecordedNvml(0x0))
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid=uuid)
    )
    state = monitor(torch.device("cuda"))()
    assert state is not None
    assert state.sm_clock_mhz == 1980.0


def test_a_gpu_that_cannot_be_asked_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", RecordedNvml(0x0))
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="another")
    )
    assert monitor(torch.device("cuda")) is silent
    assert "Not Found: GPU-another" in capsys.readouterr().err


def test_every_function_of_nvml_that_is_called_exists() -> None:
    nvml = pytest.importorskip("pynvml")
    for name in dir(RecordedNvml):
        if name.startswith(("nvml", "NVML")):
            assert hasattr(nvml, name), name
    assert (nvml.NVML_CLOCK_SM, nvml.NVML_CLOCK_MEM) == (1, 2)


def test_nothing_is_known_without_a_gpu() -> None:
    assert monitor(torch.device("cpu")) is silent
    assert summary([]) == GpuState()
    assert summary([]).throttled is None
