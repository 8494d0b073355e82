"""What our executor tells of itself: what a function is made of, and what compiling it cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import thunder

from benchmarks.cases import BACKWARD, FORWARD, INFERENCE, STEP, Function
from benchmarks.costs import Costs
from benchmarks.rows import Row
from thunder_fuser import fuser

NANOSECONDS = 1e-9


def described(row: Row, function: Function) -> Row:
    """The row with what the pass that just ran is made of. The count of kernels is that of the
    plans; on a GPU the one that CUPTI saw replaces it, torch's kernels included."""
    facts = fuser.facts(function)
    found = {
        FORWARD: facts.forward,
        INFERENCE: facts.forward,
        BACKWARD: facts.backward,
        STEP: facts.whole,
    }[row.phase]
    if found is None:
        return row
    return replace(
        row,
        n_regions=found.regions,
        n_segments=found.segments,
        n_kernels=found.kernels,
        n_unclaimed_ops=found.unclaimed_ops,
        bytes_at_cuts=found.bytes_at_cuts,
        io_bytes_moved=found.bytes_moved,
        regs_max=found.registers,
        spill_bytes=found.spill_bytes,
        smem_bytes=found.shared_bytes,
    )


def watch(function: Function) -> Callable[[], Costs]:
    """The costs from now on. Tracing is told of the function's last trace only."""
    before, traced_before = fuser.statistics(), _last_trace(function)

    def since() -> Costs:
        found, traced = fuser.statistics() - before, _last_trace(function)
        begin, end = traced
        return Costs(
            trace_s=0.0 if traced == traced_before else (end - begin) * NANOSECONDS,
            fuse_s=found.fusion_seconds,
            codegen_s=found.generation_seconds,
            nvrtc_s=found.compilation_seconds,
            tune_s=found.tuning_seconds,
            compiled=found.compiled,
            cache_hits=found.disk_hits,
        )

    return since


def _last_trace(function: Function) -> tuple[int, int]:
    stats = thunder.compile_stats(function)
    return stats.last_trace_tracing_start, stats.last_trace_tracing_stop
