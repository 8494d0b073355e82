"""`fuser.statistics()`: what compiling cost this process so far."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from operator import sub
from typing import Any

from thunder_fuser.runtime.kernels import KERNELS
from thunder_fuser.runtime.planning import PLANNING


@dataclass(frozen=True)
class Statistics:
    """Since the process began; the difference of two is what happened between them.

    `fusion_seconds` were spent on traces, `generation_seconds` from a fusion to the text of its
    kernels and its plan, `compilation_seconds` on having kernels: by a compiler (`compiled`), from
    disk (`disk_hits`) or from memory (`memory_hits`), `tuning_seconds` on timing some of them in
    `contests` plans.
    """

    fusion_seconds: float = 0.0
    generation_seconds: float = 0.0
    compilation_seconds: float = 0.0
    plans: int = 0
    compiled: int = 0
    disk_hits: int = 0
    memory_hits: int = 0
    tuning_seconds: float = 0.0
    contests: int = 0

    def __sub__(self, earlier: Any) -> Statistics:
        if not isinstance(earlier, Statistics):
            return NotImplemented
        return Statistics(*map(sub, astuple(self), astuple(earlier)))


def statistics(fusion_seconds: float) -> Statistics:
    """Of all executors of this process; the seconds on traces are those of the one that asks."""
    planning, kernels = PLANNING.statistics(), KERNELS.statistics()
    return Statistics(
        fusion_seconds,
        planning.seconds - kernels.seconds - planning.contest_seconds,
        kernels.seconds,
        planning.plans,
        kernels.compiled,
        kernels.disk_hits,
        kernels.memory_hits,
        planning.contest_seconds,
        planning.contests,
    )
