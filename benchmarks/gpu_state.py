"""Clocks, power and temperature of the GPU, by NVML: a slow row may have been a hot GPU."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from statistics import median
from typing import Any, TypeAlias

import torch

from benchmarks.rows import gpu_uuid

# Bits of NVML's reasons why the clocks are not higher.
CLOCKS_SET = 0x2  # a person set them
POWER_CAP, HARDWARE, THERMAL, HARDWARE_THERMAL, POWER_BRAKE = 0x4, 0x8, 0x20, 0x40, 0x80
THROTTLED = POWER_CAP | HARDWARE | THERMAL | HARDWARE_THERMAL | POWER_BRAKE
_TEMPERATURE_OF_DIE = 0
_MILLIWATTS = 1e-3


@dataclass(frozen=True)
class GpuState:
    """At one moment; None is what this GPU does not tell. `reasons` are NVML's bits."""

    sm_clock_mhz: float | None = None
    mem_clock_mhz: float | None = None
    power_w: float | None = None
    temp_c: float | None = None
    reasons: int | None = None

    @property
    def throttled(self) -> bool | None:
        """Whether heat, power or the hardware held the clocks down."""
        return None if self.reasons is None else bool(self.reasons & THROTTLED)

    @property
    def clocks_locked(self) -> bool | None:
        return None if self.reasons is None else bool(self.reasons & CLOCKS_SET)


Monitor: TypeAlias = Callable[[], "GpuState | None"]


def silent() -> GpuState | None:
    """The monitor where NVML, its Python package or a GPU is missing."""
    return None


def monitor(device: torch.device) -> Monitor:
    """A function that asks the GPU how it is, in some milliseconds; the silent one where it cannot
    be asked, which is then said on stderr."""
    if device.type != "cuda":
        return silent
    try:
        nvml = import_module("pynvml")
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByUUID(gpu_uuid(device))
    except Exception as reason:  # not installed, no driver for it, a slice of a GPU
        print(f"rows go without clocks, power and temperature: {reason!r}", file=sys.stderr)
        return silent
    return lambda: read(nvml, handle)


def read(nvml: Any, handle: object) -> GpuState:
    """The state by the functions of the module `pynvml`."""

    def told(name: str, *arguments: object) -> float | None:
        try:
            return float(getattr(nvml, name)(handle, *arguments))
        except (nvml.NVMLError, AttributeError):
            return None

    power = told("nvmlDeviceGetPowerUsage")
    reasons = told("nvmlDeviceGetCurrentClocksEventReasons")
    return GpuState(
        told("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
        told("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
        None if power is None else power * _MILLIWATTS,
        told("nvmlDeviceGetTemperature", _TEMPERATURE_OF_DIE),
        None if reasons is None else int(reasons),
    )


def summary(states: Sequence[GpuState]) -> GpuState:
    """Medians, and every reason that was seen."""

    def middle(name: str) -> float | None:
        known = [value for state in states if (value := getattr(state, name)) is not None]
        return median(known) if known else None

    reasons: int | None = None
    for state in states:
        if state.reasons is not None:
            reasons = (reasons or 0) | state.reasons
    return GpuState(
        middle("sm_clock_mhz"),
        middle("mem_clock_mhz"),
        middle("power_w"),
        middle("temp_c"),
        reasons,
    )
