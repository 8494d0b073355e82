"""Whether there is time for another workload before a run has to end."""

from __future__ import annotations

import time
from collections.abc import Callable

OUT_OF_TIME, LOST = 3, 4  # exit statuses: the budget is spent; the GPU is lost to the process
FIRST_SECONDS = 60.0  # for a workload of a suite of which none has been measured
MARGIN = 1.2  # of the longest so far, which the next may take


class Pace:
    """Allows workloads for as long as the next one will probably end in time."""

    def __init__(
        self,
        budget: float | None = None,
        begun: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`budget` seconds from `begun`, without one all the time of the world."""
        self._clock = clock
        start = clock() if begun is None else begun
        self._end = None if budget is None else start + budget
        self._longest: dict[str, float] = {}
        self._started = start
        self.is_over = False

    def allows(self, suite: str, first: float = FIRST_SECONDS) -> bool:
        """Whether a workload of the suite may start, which it then does. `first` are the seconds
        for it where none of the suite has been measured."""
        self._started = now = self._clock()
        longest = self._longest.get(suite)
        expected = first if longest is None else MARGIN * longest
        self.is_over |= self._end is not None and now + expected > self._end
        return not self.is_over

    def ended(self, suite: str) -> None:
        """The workload that started last has ended."""
        took = self._clock() - self._started
        self._longest[suite] = max(self._longest.get(suite, 0.0), took)
