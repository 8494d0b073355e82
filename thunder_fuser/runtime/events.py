"""The log's view of a plan in the making: an observer that tells each stage in a line or two."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from thunder_fuser import log
from thunder_fuser.kernel.source import Source
from thunder_fuser.runtime.plan import Plan
from thunder_fuser.segment.segmented import SegmentedFusion


@dataclass
class Events:
    """Logs the topics segment, codegen, memory and timing of the region `name`."""

    name: str
    _last: float = field(default_factory=time.perf_counter)

    def see(self, stage: str, value: object, segment: int | None) -> None:
        """Log one stage."""
        if isinstance(value, SegmentedFusion):
            self._segments(value)
        elif isinstance(value, Source):
            log.event(
                "codegen",
                "%s segment %s: %s blocks of %s threads, %s parameters, %s characters",
                *(self.name, segment, value.blocks, value.threads),
                *(len(value.parameters), len(value.text)),
            )
        elif isinstance(value, Plan):
            self._memory(value)
        now = time.perf_counter()
        where = self.name if segment is None else f"{self.name} segment {segment}"
        log.event("timing", "%s: %s after %.2f ms", where, stage, (now - self._last) * 1e3)
        self._last = now

    def _segments(self, segmented: SegmentedFusion) -> None:
        for line in str(segmented).splitlines():
            log.event("segment", "%s: %s", self.name, line)

    def _memory(self, plan: Plan) -> None:
        segmented = plan.segmented
        fresh = {s.target for seg in segmented.segments for s in seg.stores if not s.is_in_place}
        total = sum(segmented.layouts[tv].numel * tv.dtype.itemsize for tv in fresh)
        log.event(
            "memory",
            "%s: %s bytes allocated, %s of them between segments",
            *(self.name, total, segmented.edge_bytes),
        )


def telling(title: str, source: Source | None, work: Callable[..., Any]) -> Callable[..., Any]:
    """`work`, the launch of a segment, announced in the log whenever it runs."""
    grid = f"{source.blocks} blocks of {source.threads} threads" if source else "torch"

    def run(*values: Any) -> Any:
        log.event("launch", "%s: %s", title, grid)
        return work(*values)

    return run
