"""Rows of every suite, with all columns: figures are drawn, near those of an H200, and noisy."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.reports.recorded import ENVIRONMENT, Row

ROOF = 4_250.0
# executor: its time, host time and error, as multiples of a workload's
EXECUTORS = {
    "eager": (3.0, 0.4, 1.0),
    "inductor": (1.3, 0.6, 1.02),
    "inductor_tuned": (1.25, 0.6, 1.02),
    "torchcompile_cat": (1.6, 1.1, 1.0),
    "nvfuser": (1.5, 1.6, 1.1),
    "ours": (1.06, 0.8, 0.99),
}
ROPES = (
    *("rope_llama2_7b", "rope_llama3_8b", "rope_qwen2", "rope_phi3", "rope_mistral_nemo"),
    *("rope_gemma2_9b", "rope_mistral_7b", "rope_litgpt_llama3_8b", "rope_phi35_mini"),
)
LENGTHS = (1024, 2048, 4096, 8192, 16384, 32768)
KERNELS = (
    *("rmsnorm", "layernorm", "softmax", "swiglu", "geglu", "gelu_bias", "dropout_add_norm"),
    *("cross_entropy", "batch_norm", "transpose", "column_sum", "full_sum", "embedding"),
    *("pointwise", "rmsnorm_odd"),
)
MODELS = ("Llama-3-8B", "pythia-1.4b", "Gemma-2-2b")
MIB = 2**20


def full_run(seed: int) -> list[Row]:
    """All suites of a run on a GPU; nvfuser is absent from the models, one row of it fails and one
    of ours ran throttled."""
    draw = random.Random(seed)
    rows = [*_kernels(draw), *_ropes(draw), *_models(draw), *_hosts(draw), *_compiles(draw)]
    failed = rows.index(_find(rows, "cross_entropy", "forward", "nvfuser"))
    rows[failed] = _without(rows[failed], "error", "no rule for vector<T> | <script>x</script>")
    _find(rows, "softmax", "backward", "ours").update(throttled=True, sm_clock_mhz=1155.0)
    return rows


def small_run(seed: int) -> list[Row]:
    """Of a whole run some workloads of every suite."""
    kept = {*KERNELS[:3], "cross_entropy", *ROPES[:2], MODELS[1], "rope_small", "layers_32"}
    return [row for row in full_run(seed) if row["workload"] in kept]


def host_target_run(seed: int) -> list[Row]:
    """Those workloads as if they ran on the host target, where there are wall times alone."""
    unknown = {"target": "host", "gpu_name": None, "copy_gbps": None, "n_kernels": None}
    unknown |= {f"{clock}_us_p{q}": None for clock in ("kernel", "host") for q in (20, 50, 80)}
    unknown |= dict.fromkeys(("peak_alloc_mib", "regs_max", "spill_bytes", "smem_bytes"))
    unknown |= dict.fromkeys(("sm_clock_mhz", "mem_clock_mhz", "power_w", "temp_c", "throttled"))
    rows = small_run(seed)
    trials = [row["trial_us"] and 3 * [row["wall_us_p50"]] for row in rows]
    return [row | unknown | {"trial_us": one} for row, one in zip(rows, trials, strict=True)]


def _find(rows: list[Row], workload: str, phase: str, executor: str) -> Row:
    wanted = (workload, phase, executor)
    return next(r for r in rows if (r["workload"], r["phase"], r["executor"]) == wanted)


def _kernels(draw: random.Random) -> Iterator[Row]:
    for workload in KERNELS:
        size = draw.randint(60, 900) * MIB
        for phase, factor in (("forward", 1.0), ("backward", 1.5)):
            for executor in EXECUTORS:
                sizes = "rows=16384 columns=4096"
                row = _row(draw, "kernels", workload, phase, sizes, executor, size * factor)
                yield row | _numerics(draw, executor)
    for columns in (4097, 50257):
        for executor in EXECUTORS:
            sizes = f"rows=8192 columns={columns}"
            yield _row(draw, "kernels", "softmax_odd", "forward", sizes, executor, 2e8)


def _ropes(draw: random.Random) -> Iterator[Row]:
    for workload in ROPES:
        for length in LENGTHS:
            for phase, factor in (("forward", 1.0), ("backward", 1.4)):
                for executor in EXECUTORS:
                    sizes = f"batch=1 length={length} heads=32"
                    size = length * 33_000 * factor
                    row = _row(draw, "rope", workload, phase, sizes, executor, size)
                    yield row | {"seq_len": length} | _numerics(draw, executor)


def _models(draw: random.Random) -> Iterator[Row]:
    for workload in MODELS:
        for layers in (2, 8):
            for phase, factor in (("step", 1.0), ("inference", 0.3)):
                for executor in EXECUTORS:
                    sizes = f"layers={layers} batch=1 length=4096"
                    size = 4e10 * layers * factor
                    row = _row(draw, "models", workload, phase, sizes, executor, size)
                    row |= {"seq_len": 4096, "tokens_per_s": 4096e6 / row["wall_us_p50"]}
                    if executor == "nvfuser":
                        row = _without(row, "skipped", "nvFuser is not installed")
                    yield row | {"peak_alloc_mib": draw.uniform(0.9, 1.1) * 4000 * layers}


def _hosts(draw: random.Random) -> Iterator[Row]:
    for workload in ("pointwise_small", "rmsnorm_small", "rope_small"):
        for phase in ("forward", "inference"):
            for executor in EXECUTORS:
                yield _row(draw, "host", workload, phase, "rows=16 columns=1024", executor, 65_536)


def _compiles(draw: random.Random) -> Iterator[Row]:
    for workload in ("rope", "block", "layers_2", "layers_32", "lengths_20"):
        for executor in EXECUTORS:
            row = _row(draw, "compile", workload, "forward", "", executor, 1e6)
            cold = draw.uniform(0.2, 5.0) * EXECUTORS[executor][0]
            row |= {f"kernel_us_p{q}": None for q in (20, 50, 80)} | {"trial_us": None}
            warm = cold * draw.uniform(0.1, 0.4)
            row |= {"first_call_s_cold": cold, "first_call_s_warm": warm}
            row |= {"cold_samples_s": [cold * 0.97, cold, cold * 1.04]}
            row |= {"warm_samples_s": [warm * 0.9, warm, warm * 1.1]}
            if executor == "ours":
                parts = dict.fromkeys(("trace_s", "fuse_s", "codegen_s", "nvrtc_s", "tune_s"))
                row |= {name: cold * draw.uniform(0.05, 0.24) for name in parts}
                row |= {"n_compiled": draw.randint(1, 9), "n_cache_hit": 0}
            yield row


def _row(
    draw: random.Random, suite: str, workload: str, phase: str, sizes: str, executor: str,
    size: float,
) -> Row:  # fmt: skip
    time, host, _ = EXECUTORS[executor]
    kernel = (3.0 + size / ROOF / 1e3) * time * draw.uniform(0.95, 1.15)
    launches = {"pythia-1.4b": 1.4, "Llama-3-8B": 0.2, "Gemma-2-2b": 0.3}.get(workload, 0.0)
    calls = kernel * launches + draw.uniform(60, 110)
    host_us = host * calls
    row: Row = {
        **ENVIRONMENT,
        **{"suite": suite, "workload": workload, "phase": phase, "sizes": sizes},
        **{"executor": executor, "executor_options": "", "seq_len": None, "dtype": "bfloat16"},
        **{"status": "ok", "error_type": None, "error_msg": None, "run_id": "f00", "litgpt": "0.5"},
        **{"driver": "580.1", "nvrtc": "13.0", "clocks_locked": False, "copy_gbps": ROOF},
        **_quantiles(draw, "kernel", kernel),
        **_quantiles(draw, "host", host_us),
        **_quantiles(draw, "wall", max(kernel, host_us) * draw.uniform(1.02, 1.1) + 8),
        **{"n_samples": 150, "n_kernels": 1 if executor == "ours" else draw.randint(1, 5)},
        **{"io_bytes_min": round(size), "first_call_s": draw.uniform(0.1, 3)},
        **{"peak_alloc_mib": size / MIB * draw.uniform(0.9, 1.3), "throttled": False},
        **{"saved_for_backward_mib": size / MIB / 3, "sm_clock_mhz": draw.uniform(1900, 1980)},
        **{"mem_clock_mhz": 3201.0, "power_w": draw.uniform(300, 690), "temp_c": 51.0},
    }
    clock = {"models": "wall", "host": "host"}.get(suite, "kernel")
    row["trial_us"] = [row[f"{clock}_us_p50"] * draw.uniform(0.998, 1.002) for _ in range(3)]
    return row | (_structure(draw, size) if executor == "ours" else {})


def _quantiles(draw: random.Random, clock: str, median: float) -> Row:
    noise = draw.uniform(0.001, 0.006)
    shifts = {20: 1 - noise, 50: 1.0, 80: 1 + noise}
    return {f"{clock}_us_p{quantile}": median * shift for quantile, shift in shifts.items()}


def _structure(draw: random.Random, size: float) -> Row:
    counts = {"n_regions": 1, "n_segments": draw.randint(1, 3), "n_unclaimed_ops": 0}
    moved = {"io_bytes_moved": round(size * draw.choice((1.0, 1.0, 1.3))), "bytes_at_cuts": 0}
    return counts | moved | {"regs_max": 40, "spill_bytes": 0, "smem_bytes": 8192}


def _numerics(draw: random.Random, executor: str) -> Row:
    eager = draw.uniform(1e-3, 3e-3)
    return {"err_vs_fp64": eager * EXECUTORS[executor][2], "err_eager_vs_fp64": eager}


def _without(row: Row, status: str, message: str) -> Row:
    """The row as one that was not measured."""
    measured = [name for name in row if "_us_" in name or name.startswith(("n_", "first", "peak"))]
    unknown = dict.fromkeys([*measured, "trial_us", "saved_for_backward_mib", "tokens_per_s"])
    return row | unknown | {"status": status, "error_msg": message}
