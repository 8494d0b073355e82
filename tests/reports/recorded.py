"""Rows of an H200. Kernel times, kernel counts, forward host times and the copy roof are those of
reports/2026-11-20-h200/peers.csv. That file has no quantiles, memory or errors against fp64: these,
and the row of an executor that is not installed, are made up.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
ENVIRONMENT: Row = {
    "timestamp_utc": "2026-11-20T06:00:00+00:00",
    "command": "python -m benchmarks",
    "git_sha": "c2de6e9000000000000000000000000000000000",
    "git_dirty": False,
    "target": "cuda",
    "gpu_name": "NVIDIA H200",
    "cpu_name": "AMD EPYC",
    "torch": "2.11.0+cu130",
    "thunder": "0.2.6",
    "copy_gbps": 4273.0,
}
# workload, pass, executor: us in kernels, us on the host, kernels, minimal bytes, error
MEASURED = (
    ("rope_llama2_7b", "forward", "inductor", 73.152, 67.97, 1, 270_532_608, 1.6e-3),
    ("rope_llama2_7b", "forward", "ours", 68.480, 146.60, 1, 270_532_608, 1.6e-3),
    ("rope_llama2_7b", "backward", "inductor", 467.967, 67.97, 4, 404_750_336, 1.5e-3),
    ("rope_llama2_7b", "backward", "ours", 99.488, 146.60, 1, 404_750_336, 1.5e-3),
    ("softmax", "forward", "inductor", 162.399, 54.53, 1, 268_435_456, 1.7e-3),
    ("softmax", "forward", "ours", 66.657, 142.44, 1, 268_435_456, 1.7e-3),
    ("softmax", "backward", "inductor", 92.640, 54.53, 1, 402_653_184, 2.3e-3),
    ("softmax", "backward", "ours", 95.680, 142.44, 1, 402_653_184, 2.3e-3),
)
SPREAD = 0.004  # from the median to p20 and p80, relative


def run() -> list[Row]:
    """One run: every row measured, and a peer that is not installed."""
    rows = [_row(*measured) for measured in MEASURED]
    absent = {**_row("softmax", "forward", "nvfuser", 0.0, 0.0, 0, 0, 0.0), "status": "skipped"}
    return [*rows, absent | {"error_msg": "nvFuser is not installed", "trial_us": None}]


def host_run() -> list[Row]:
    """The same rows as if they were wall times of the host target."""
    unknown = {"target": "host", "gpu_name": None, "copy_gbps": None, "n_kernels": None}
    unknown |= {f"{clock}_us_p{q}": None for clock in ("kernel", "host") for q in (20, 50, 80)}
    unknown["peak_alloc_mib"] = None
    return [
        row | unknown | {"trial_us": row["trial_us"] and 3 * [row["wall_us_p50"]]} for row in run()
    ]


def scaled(row: Row, factor: float) -> Row:
    """The row with all of its times multiplied."""
    times = {name: row[name] * factor for name in row if "_us_p" in name and row[name] is not None}
    trials = row["trial_us"] and [trial * factor for trial in row["trial_us"]]
    return row | times | {"trial_us": trials}


def of_ours(rows: Sequence[Row]) -> int:
    """The position of the row that tests tamper with."""
    found = [(row["workload"], row["phase"], row["executor"]) for row in rows]
    return found.index(("softmax", "forward", "ours"))


def write(path: Path, rows: Sequence[Row]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _row(
    workload: str,
    phase: str,
    executor: str,
    us: float,
    host_us: float,
    kernels: int,
    size: int,
    error: float,
) -> Row:
    times: Row = {}
    for clock, median in (("kernel", us), ("host", host_us), ("wall", us + host_us)):
        for quantile, shift in ((20, -SPREAD), (50, 0.0), (80, SPREAD)):
            times[f"{clock}_us_p{quantile}"] = median * (1 + shift)
    return {
        "workload": workload,
        "phase": phase,
        "executor": executor,
        "dtype": "bfloat16",
        "sizes": "rows=16384 columns=4096",
        "status": "ok",
        "error_msg": None,
        **times,
        "trial_us": [us * 0.999, us, us * 1.001],
        "n_kernels": kernels,
        "io_bytes_min": size,
        "peak_alloc_mib": 128.0,
        "first_call_s": 0.4,
        "err_vs_fp64": error,
        "err_eager_vs_fp64": 2.5e-3,
        **ENVIRONMENT,
    }
