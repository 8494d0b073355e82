"""Which of several kernels of a segment is the fastest, on the arguments of a real call.

The plan runs once. Where it comes to a segment with rivals, these are launched in turns on the same
pointers, with the cache of the GPU flushed before each, until the laps are run or the time is up.
Rivals write the same results to the same places, so the last one is as good as the first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import torch

from thunder_fuser.runtime.clock import Clock, Seconds, clock_of
from thunder_fuser.runtime.compilation import Launcher
from thunder_fuser.runtime.plan import Plan, observed

LAPS = 11  # of each rival, after one that is not counted
MARGIN = 0.01  # of the first rival's time: what is not faster by more is noise
RESOLUTION = 0.25e-6  # seconds; kernels as fast by CUPTI had medians 0.13 us apart

Times = tuple[float, ...]


def contest(
    plan: Plan,
    rivals: Mapping[int, Sequence[Launcher]],
    arguments: Sequence[Any],
    budget: float,
    flushed: int = 0,
    clock: Clock | None = None,
) -> dict[int, Times]:
    """The median seconds of every rival, by the position of its segment.

    `budget` is in seconds, for all of them; at least one lap is run. `flushed` bytes are written
    before each launch. Inputs that the plan writes to are copied, so that `arguments` stay as they
    are. No rival's segment may write in place. Raises LaunchError and torch.OutOfMemoryError.
    """
    times: dict[int, Times] = {}
    share = budget / max(len(rivals), 1)
    flush = _flush(flushed, plan.device)
    start = clock or clock_of(plan.device)

    def around(position: int, work: Callable[..., Any]) -> Callable[..., Any]:
        launchers = rivals.get(position)
        if launchers is None:
            return work

        def race(*values: Any) -> None:
            times[position] = _race(launchers, values, share, flush, start)

        return race

    with torch.no_grad():
        observed(plan, around)(*_spared(plan, arguments))
    return times


def fastest(times: Times) -> int:
    """The rival to take by its seconds: the first unless another is faster beyond the noise."""
    best = min(range(len(times)), key=times.__getitem__)
    noise = max(MARGIN * times[0], RESOLUTION)
    return best if times[best] < times[0] - noise else 0


def _race(
    launchers: Sequence[Launcher],
    values: Sequence[Any],
    seconds: float,
    flush: Callable[[], object],
    start: Clock,
) -> Times:
    for launch in launchers:  # the first launch of a kernel brings it into the GPU's caches
        launch(*values)
    end = time.perf_counter() + seconds
    laps: list[Times] = []
    while not laps or (len(laps) < LAPS and time.perf_counter() < end):
        laps.append(_lap(launchers, values, flush, start))
    return tuple(median(lap) for lap in zip(*laps, strict=True))


def _lap(
    launchers: Sequence[Launcher], values: Sequence[Any], flush: Callable[[], object], start: Clock
) -> Times:
    """The seconds of each. All are enqueued before the first is waited for: while the GPU writes
    what flushes its cache, the host is ahead, and no gap between launches is measured. The first
    needs twice the time, since the GPU waits for the host where a lap begins."""
    found: list[Seconds] = []
    flush()
    for launch in launchers:
        flush()
        stop = start()
        launch(*values)
        found.append(stop())
    return tuple(seconds() for seconds in found)


def _flush(size: int, device: torch.device) -> Callable[[], object]:
    buffer = torch.empty(size, dtype=torch.uint8, device=device)
    return lambda: buffer.zero_()


def _spared(plan: Plan, arguments: Sequence[Any]) -> list[Any]:
    """The arguments, with copies of those that are written to."""
    targets = {write.target for write in plan.segmented.fusion.writes}
    pairs = zip(plan.arguments, arguments, strict=True)
    return [_copied(given) if known in targets else given for known, given in pairs]


def _copied(given: torch.Tensor) -> torch.Tensor:
    made = torch.empty_strided(given.shape, given.stride(), dtype=given.dtype, device=given.device)
    return made.copy_(given)
