"""How long this process took to make plans."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from threading import Lock


@dataclass(frozen=True)
class PlanStatistics:
    """Plans made, and seconds from a fusion to its plan, kernels included."""

    plans: int = 0
    seconds: float = 0.0


class Planning:
    """Counts. May be called from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._statistics = PlanStatistics()

    def add(self, seconds: float) -> None:
        """One more plan."""
        with self._lock:
            now = self._statistics
            self._statistics = replace(now, plans=now.plans + 1, seconds=now.seconds + seconds)

    def statistics(self) -> PlanStatistics:
        """Since the start."""
        return self._statistics


PLANNING = Planning()


@dataclass(frozen=True)
class Timer:
    """An observer that adds one plan to `PLANNING`, from its own beginning to the last stage."""

    _begin: float = field(default_factory=time.perf_counter)

    def see(self, stage: str, value: object, segment: int | None) -> None:
        if stage == "plan":
            PLANNING.add(time.perf_counter() - self._begin)
