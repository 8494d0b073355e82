"""What the columns of a row mean: the text of docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Mapping

GROUPS: Mapping[str, Mapping[str, str]] = {
    "identity": {
        "suite": "which suite",
        "workload": "which workload of it",
        "executor": "who ran it",
        "phase": "`forward`, `backward`, `step` (forward, loss and backward) or `inference`",
        "sizes": "of the workload, such as `rows=33 columns=200`",
        "dtype": "of the inputs; weights may differ, which the workload's name then tells",
        "seq_len": "the sequence length, where there is one",
        "executor_options": "keywords of the executor's compile function",
    },
    "outcome": {
        "status": "`ok`, `error`, `oom`, `timeout` or `skipped`",
        "error_type": "the exception; `ProcessDied` of a row that took the process down, `Stopped` "
        "of one that took too long",
        "error_msg": "why the row is not ok",
    },
    "time": {
        "kernel_us_p20, kernel_us_p50, kernel_us_p80": "microseconds that the GPU was at work "
        "for a call: the sum over its kernels, copies and memsets; quantiles over calls",
        "host_us_p20, host_us_p50, host_us_p80": "microseconds until the call returned",
        "wall_us_p20, wall_us_p50, wall_us_p80": "microseconds until the device was done",
        "trial_us": "medians of the three trials, by the clock that judges the row",
        "n_samples": "calls behind the quantiles; in the host suite bursts of calls, in the "
        "compile suite processes",
        "tokens_per_s": "of a model: batch times length per second of wall time",
    },
    "GPU": {
        "sm_clock_mhz, mem_clock_mhz": "right after calls of this row, median of the trials",
        "power_w, temp_c": "likewise",
        "throttled": "whether heat, power or the hardware held the clocks down in any trial",
    },
    "structure": {
        "n_regions": "fusions in the trace of the pass",
        "n_segments": "of their plans",
        "n_kernels": "kernels, copies and memsets of a call as CUPTI saw them; without a GPU the "
        "kernels of the plans",
        "n_unclaimed_ops": "symbols outside of regions",
        "regs_max, spill_bytes, smem_bytes": "registers of a thread, spilled bytes, dynamic shared "
        "bytes of a block, each of the kernel that has most; the host compiler tells no registers",
    },
    "traffic": {
        "io_bytes_min": "the least that the pass can move: each input that has to be read and each "
        "output that has to be written, once",
        "io_bytes_moved": "what the segments read and write, each element once per segment; ops "
        "outside of regions are not in it",
        "bytes_at_cuts": "what segments of one region hand over through memory",
    },
    "memory": {
        "peak_alloc_mib": "the peak of a call beyond what was allocated before it",
        "saved_for_backward_mib": "what the forward keeps alive for the backward, without inputs "
        "and parameters",
    },
    "compiling": {
        "first_call_s": "seconds of the first call in this process, from whatever caches hold; "
        "that of the first workload has imports in it",
        "first_call_s_cold, first_call_s_warm": "in a process of its own with empty caches, and in "
        "a second one that finds them filled; compile suite only, medians",
        "cold_samples_s, warm_samples_s": "of each pair of such processes",
        "trace_s": "of it tracing, by Thunder",
        "fuse_s": "of it finding regions; part of what Thunder's transforms take",
        "codegen_s": "of it from a fusion to the text of its kernels and its plan",
        "nvrtc_s": "of it having kernels: the compiler's time, or that of loading them from disk",
        "tune_s": "of it timing kernels with other parameters, which were compiled too",
        "n_compiled": "kernels of ours, or graphs of Inductor, that were compiled",
        "n_cache_hit": "and that were found on disk; in the compile suite by the warm process",
    },
    "numerics": {
        "err_vs_fp64": "the largest relative error of a result, by norms, against the function in "
        "fp64; null where that did not fit into memory",
        "err_eager_vs_fp64": "the error of eager torch, by the same measure",
    },
    "environment": {
        "run_id": "the same for all rows of a run, resumed or not",
        "timestamp_utc, command": "when and how it was started",
        "git_sha, git_dirty": "of the checkout",
        "target": "`cuda`, or `host` for the host target, whose times tell nothing about a GPU",
        "gpu_name, cpu_name": "where",
        "gpu_uuid": "which of several",
        "driver": "the newest CUDA that the driver serves",
        "python, torch, thunder, thunder_fuser, litgpt, nvrtc": "versions; `none` of what is not "
        "installed",
        "clocks_locked": "whether a person had limited the clocks, by NVML",
        "copy_gbps": "10^9 bytes per second, read and written, of a 2 GiB device copy in this run: "
        "the roof",
    },
}


def names() -> list[str]:
    """Every column, in order."""
    return [name for group in GROUPS.values() for key in group for name in key.split(", ")]


def table() -> str:
    """Markdown, a line per column or family of columns."""
    lines = ["| | column | |", "|---|---|---|"]
    for group, columns in GROUPS.items():
        for position, (key, meaning) in enumerate(columns.items()):
            told = ", ".join(f"`{name}`" for name in key.split(", "))
            lines.append(f"| {'' if position else group} | {told} | {meaning} |")
    return "\n".join(lines) + "\n"
