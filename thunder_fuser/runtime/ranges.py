"""Ranges for profilers: around each call of a region, and in it around the launch of each segment.

nvtx        Nsight Systems shows them
profiler    torch.profiler shows them, and so do its Chrome traces
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

Ranges = Callable[[str], AbstractContextManager[object]]


def region_ranged(kind: str, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
    """`work`, a call of the region of that name, in a range if the option `ranges` is not off."""
    ranges = ranges_of(kind)
    return work if ranges is None else ranged(ranges, f"region {name}", work)


def ranges_of(kind: str) -> Ranges | None:
    """What opens a range of a name; None for "off", and with a warning where torch has no NVTX."""
    if kind == "off":
        return None
    if kind == "profiler":
        made: Ranges = torch.profiler.record_function
        return made
    try:
        with torch.cuda.nvtx.range("thunder_fuser"):
            pass
    except RuntimeError as error:
        warnings.warn(f"ranges=nvtx shows nothing: {error}", RuntimeWarning, stacklevel=2)
        return None
    made = torch.cuda.nvtx.range
    return made


def ranged(ranges: Ranges, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
    """`work` in a range of that name."""

    def run(*values: Any) -> Any:
        with ranges(name):
            return work(*values)

    return run
