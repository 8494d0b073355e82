"""`fuser.facts(jfn)`: what a compiled function came to be, in numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import thunder

from thunder_fuser.executor.region import region_of
from thunder_fuser.executor.report import is_bookkeeping
from thunder_fuser.executor.steps import check_called
from thunder_fuser.runtime.kernels import KERNELS
from thunder_fuser.segment.traffic import bytes_read, bytes_written


@dataclass(frozen=True)
class PassFacts:
    """One direction. `unclaimed_ops` are the symbols outside of regions, `bytes_moved` what all
    segments read and write, `bytes_at_cuts` what they hand to each other inside a region, each
    element once. `registers` of a thread, `shared_bytes` of a block and `spill_bytes` are those of
    the kernel that has most, None where there is no kernel or its compiler does not tell. Of a
    region that was not called only its existence is known.
    """

    regions: int
    segments: int
    kernels: int
    unclaimed_ops: int
    bytes_moved: int
    bytes_at_cuts: int
    registers: int | None
    spill_bytes: int | None
    shared_bytes: int | None


@dataclass(frozen=True)
class Facts:
    """`backward` is None for a function without one."""

    forward: PassFacts
    backward: PassFacts | None

    @property
    def whole(self) -> PassFacts:
        """Both directions together."""
        if self.backward is None:
            return self.forward
        one, other = self.forward, self.backward
        return PassFacts(
            one.regions + other.regions,
            one.segments + other.segments,
            one.kernels + other.kernels,
            one.unclaimed_ops + other.unclaimed_ops,
            one.bytes_moved + other.bytes_moved,
            one.bytes_at_cuts + other.bytes_at_cuts,
            _largest((one.registers, other.registers)),
            _largest((one.spill_bytes, other.spill_bytes)),
            _largest((one.shared_bytes, other.shared_bytes)),
        )


def facts(jfn: Callable[..., Any]) -> Facts:
    """Of the traces that `jfn` compiled last, and of the plans that its regions used last.

    Raises ValueError for a function that thunder.jit did not compile or that was never called.
    """
    check_called(jfn)
    forward, backward = thunder.last_traces(jfn), thunder.last_backward_traces(jfn)
    return Facts(_facts(forward[-1]), _facts(backward[-1]) if backward else None)


def _facts(trace: Any) -> PassFacts:
    bsyms = trace.bound_symbols
    regions = [region for bsym in bsyms if (region := region_of(bsym)) is not None]
    outside = [b for b in bsyms if region_of(b) is None and not is_bookkeeping(b)]
    plans = [plan for region in regions if (plan := region.last_plan) is not None]
    launchers = [launch for plan in plans for launch in plan.launchers if launch is not None]
    known = [found for launch in launchers if (found := KERNELS.metadata(launch)) is not None]
    sources = [source for plan in plans for source in plan.kernels if source is not None]
    segments = [segment for plan in plans for segment in plan.segmented.segments]
    return PassFacts(
        regions=len(regions),
        segments=len(segments),
        kernels=sum(plan.launches for plan in plans),
        unclaimed_ops=len(outside),
        bytes_moved=sum(bytes_read(s) + bytes_written(s) for s in segments),
        bytes_at_cuts=sum(plan.segmented.edge_bytes for plan in plans),
        registers=_largest(kernel.registers for kernel in known),
        spill_bytes=_largest(kernel.spill_bytes for kernel in known),
        shared_bytes=_largest(source.shared_bytes for source in sources),
    )


def _largest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)
