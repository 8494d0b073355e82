"""How long this process took to make plans."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from thunder_fuser.locks import new_lock


@dataclass(frozen=True)
class PlanStatistics:
    """Plans made, seconds from a fusion to its plan, kernels included, and how many of these went
    into contests between kernels."""

    plans: int = 0
    seconds: float = 0.0
    contests: int = 0
    contest_seconds: float = 0.0


class Planning:
    """Counts. May be called from several threads."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._statistics = PlanStatistics()

    def add(self, seconds: float) -> None:
        """One more plan."""
        with self._lock:
            now = self._statistics
            self._statistics = replace(now, plans=now.plans + 1, seconds=now.seconds + seconds)

    def add_contest(self, seconds: float) -> None:
        """Kernels were timed for so long."""
        with self._lock:
            now = self._statistics
            contested = now.contest_seconds + seconds
            self._statistics = replace(now, contests=now.contests + 1, contest_seconds=contested)

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
