"""Enter what was found out into a row."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.cases import INFERENCE, STEP, Sizes
from benchmarks.costs import Costs
from benchmarks.gpu_state import summary
from benchmarks.measure import MICROSECONDS, Timing
from benchmarks.rows import Row

OF_MODELS = (STEP, INFERENCE)  # phases for which tokens are counted


def with_costs(row: Row, costs: Costs) -> Row:
    """The row with what its first call was spent on."""
    return replace(
        row,
        trace_s=costs.trace_s,
        fuse_s=costs.fuse_s,
        codegen_s=costs.codegen_s,
        nvrtc_s=costs.nvrtc_s,
        tune_s=costs.tune_s,
        n_compiled=costs.compiled,
        n_cache_hit=costs.cache_hits,
    )


def with_timing(row: Row, timing: Timing, by_wall: bool) -> Row:
    """The row with its times and with the state of the GPU at that time. Trials are of the clock
    that the row is judged by: with `by_wall` the whole call, else its kernels where there are
    any."""
    kernel, host, wall = timing.kernel, timing.host, timing.wall
    state = summary(timing.states)
    return replace(
        row,
        kernel_us_p20=kernel.p20,
        kernel_us_p50=kernel.p50,
        kernel_us_p80=kernel.p80,
        host_us_p20=host.p20,
        host_us_p50=host.p50,
        host_us_p80=host.p80,
        wall_us_p20=wall.p20,
        wall_us_p50=wall.p50,
        wall_us_p80=wall.p80,
        trial_us=timing.wall_trials if by_wall else timing.kernel_trials or timing.wall_trials,
        n_samples=timing.samples,
        n_kernels=row.n_kernels if timing.kernels is None else timing.kernels,
        sm_clock_mhz=state.sm_clock_mhz,
        mem_clock_mhz=state.mem_clock_mhz,
        power_w=state.power_w,
        temp_c=state.temp_c,
        throttled=state.throttled,
    )


def with_tokens(row: Row, sizes: Sizes) -> Row:
    """The row of a model with its tokens per second of wall time."""
    if row.phase not in OF_MODELS or "length" not in sizes or not row.wall_us_p50:
        return row
    tokens = sizes.get("batch", 1) * sizes["length"]
    return replace(row, tokens_per_s=tokens / row.wall_us_p50 * MICROSECONDS)
