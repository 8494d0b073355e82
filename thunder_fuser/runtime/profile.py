"""Time a plan segment by segment.

On CUDA the times are between events on the stream, which add a few microseconds to each kernel; on
the host they are those of the calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from thunder_fuser.runtime.clock import Seconds, clock_of
from thunder_fuser.runtime.kernels import KERNELS
from thunder_fuser.runtime.plan import Plan, observed
from thunder_fuser.segment.traffic import bytes_read, bytes_written


@dataclass(frozen=True)
class SegmentProfile:
    """One segment in one run. `bytes` counts every element that it reads or writes once.
    Registers and spills are None where the compiler does not tell, the grid is None where torch
    runs the segment."""

    kind: str
    reads: int
    writes: int
    seconds: float
    bytes: int
    blocks: int | None
    threads: int | None
    registers: int | None
    spill_bytes: int | None

    @property
    def gbps(self) -> float:
        """10^9 bytes per second."""
        return self.bytes / self.seconds / 1e9 if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class Profile:
    """One run: its segments, kernels launched, and seconds on the host including a wait for the
    device. `str()` is a table."""

    region: str
    segments: tuple[SegmentProfile, ...]
    kernels: int
    seconds: float

    def __str__(self) -> str:
        return table((self,))


def table(profiles: Sequence[Profile]) -> str:
    """One line per segment of several runs, times in microseconds."""
    head = ("region", "segment", "kind", "us", "bytes", "GB/s", "grid", "registers", "spills")
    rows: list[tuple[str, ...]] = [head]
    for profile in profiles:
        rows += [
            (
                profile.region,
                str(position),
                s.kind,
                f"{s.seconds * 1e6:.1f}",
                str(s.bytes),
                f"{s.gbps:.1f}",
                "-" if s.blocks is None else f"{s.blocks} x {s.threads}",
                "-" if s.registers is None else str(s.registers),
                "-" if s.spill_bytes is None else str(s.spill_bytes),
            )
            for position, s in enumerate(profile.segments)
        ]
        whole = f"{profile.seconds * 1e6:.1f}"
        rows.append((profile.region, "all", f"{profile.kernels} kernels", whole, *["-"] * 5))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )


def run_profiled(
    plan: Plan, region: str, arguments: Sequence[Any]
) -> tuple[list[torch.Tensor], Profile]:
    """The outputs of one run of `plan`, and how long its segments took."""
    clocks: dict[int, Seconds] = {}
    start = clock_of(plan.device)

    def around(position: int, work: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*values: Any) -> Any:
            stop = start()
            result = work(*values)
            clocks[position] = stop()
            return result

        return timed

    run = observed(plan, around)
    begin = time.perf_counter()
    outputs = run(*arguments)
    if plan.device.type == "cuda":
        torch.cuda.synchronize(plan.device)
    seconds = time.perf_counter() - begin
    segments = tuple(
        _profile(plan, position, clocks[position]() if position in clocks else 0.0)
        for position in range(len(plan.segmented.segments))
    )
    return outputs, Profile(region, segments, plan.launches, seconds)


def _profile(plan: Plan, position: int, seconds: float) -> SegmentProfile:
    segment, source = plan.segmented.segments[position], plan.kernels[position]
    launch = plan.launchers[position]
    known = KERNELS.metadata(launch) if launch is not None else None
    return SegmentProfile(
        kind="torch" if source is None else "kernel",
        reads=len(segment.inputs),
        writes=len(segment.stores),
        seconds=seconds,
        bytes=bytes_read(segment) + bytes_written(segment),
        blocks=source.blocks if source is not None else None,
        threads=source.threads if source is not None else None,
        registers=known.registers if known is not None else None,
        spill_bytes=known.spill_bytes if known is not None else None,
    )
