"""The columns of a row: which there are, which a report cannot do without, and who is who.

A column that is not essential may be absent: the tables that need it are then left out.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection

KEY = ["suite", "workload", "phase", "sizes", "dtype", "executor"]
CLOCKS = ["kernel_us", "host_us", "wall_us"]
QUANTILES = ["p20", "p50", "p80"]
NUMBERS = [
    *(f"{clock}_{quantile}" for clock in CLOCKS for quantile in QUANTILES),
    *("n_samples", "seq_len", "tokens_per_s"),
    *("io_bytes_min", "io_bytes_moved", "bytes_at_cuts", "copy_gbps"),
    *("n_regions", "n_segments", "n_kernels", "n_unclaimed_ops"),
    *("peak_alloc_mib", "saved_for_backward_mib"),
    *("first_call_s", "first_call_s_cold", "first_call_s_warm"),
    *("trace_s", "fuse_s", "codegen_s", "nvrtc_s", "tune_s", "n_compiled", "n_cache_hit"),
    *("regs_max", "spill_bytes", "smem_bytes"),
    *("sm_clock_mhz", "mem_clock_mhz", "power_w", "temp_c"),
    *("err_vs_fp64", "err_eager_vs_fp64", "err_vs_eager"),
]
LISTS = ["trial_us", "cold_samples_s", "warm_samples_s"]
FIRST_CALLS = {"first_call_s_cold": "cold_samples_s", "first_call_s_warm": "warm_samples_s"}
FLAGS = ["git_dirty", "clocks_locked", "throttled"]
TEXTS = [
    *("status", "error_type", "error_msg", "executor_options"),
    *("run_id", "timestamp_utc", "command", "git_sha", "source"),
    *("target", "gpu_name", "gpu_uuid", "cpu_name", "driver", "nvrtc"),
    *("python", "torch", "thunder", "thunder_fuser", "litgpt"),
]
_GIVEN = {"seq_len", "io_bytes_min", "copy_gbps"}  # without measuring the row
MEASURED = [*LISTS, *(name for name in NUMBERS if name not in _GIVEN)]
COLUMNS = [*KEY, *TEXTS, *FLAGS, *LISTS, *NUMBERS]

ESSENTIAL = ["workload", "phase", "dtype", "executor", "status", "target"]
HOST = "host"  # the target whose times tell nothing about a GPU
TARGETS = ("cuda", HOST)
DEVICE = {"cuda": "gpu_name", HOST: "cpu_name"}  # the column that says what a target's rows ran on
TIME = {"cuda": "kernel_us_p50", HOST: "wall_us_p50"}  # what a file of a target is read for
DEFAULT_SUITE = "kernels"
HOST_SUITES = ("host", "peers_host")  # those that measure what a call costs the host
FAILED = ("error", "oom", "timeout")
STATUSES = ("ok", *FAILED, "skipped")

OURS = "ours"
# The order of tables and legends; ours first, because a phone shows the first columns.
EXECUTORS = (OURS, "eager", "inductor", "inductor_tuned", "torchcompile_cat", "nvfuser", "liger")
_UNITS = {"s", "ms", "us", "ns", "bytes", "kb", "mb", "gb", "kib", "mib", "gib", "gbps", "tbps"}
_UNITS |= {"khz", "mhz", "ghz", "w", "mw"}
_SIMILAR = 0.85  # of difflib: one letter too many in a name of seven


def nearest(name: str, known: Collection[str], cutoff: float = 0.6) -> str | None:
    """The known name that is most like `name`."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return near[0] if near else None


def mistaken(name: str, present: Collection[str]) -> str | None:
    """Why a column that is none of COLUMNS is probably a mistake, or None. `present` are the
    columns of the file."""
    for known in COLUMNS:
        if _without_units(known) == _without_units(name):
            return f"{name} has another unit than {known}, the column that is read"
    near = nearest(name, [known for known in COLUMNS if known not in present], _SIMILAR)
    return f"there is no column {name}; did you mean {near}?" if near else None


def _without_units(name: str) -> tuple[str, ...]:
    return tuple("unit" if word in _UNITS else word for word in name.split("_"))
