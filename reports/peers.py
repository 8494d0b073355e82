"""Rows of `peers/bench.py`, an older harness, as rows of ours.

    work,exec,compile_s,fwd_us,fwd_k,fwd_sol,...    a line has both passes and host times
      =>
    suite=peers  workload  phase=forward  kernel_us_p50  n_kernels  io_bytes_min  first_call_s
    suite=peers  workload  phase=backward ...
    suite=peers_host  workload  phase=forward, inference     host_us_p50

The file does not say where it was measured: `<its name>.json` beside it does. The suites are its
own, because the rows were timed in another way than `benchmarks` does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from reports.rows import BadRows

NOTES = (
    "The rows were written by another harness, peers/bench.py: medians of 10 calls.",
    "Minimal bytes are what follows from its percentages of the copy roof.",
    "Host times are of the forward alone: the best of five means of 60 calls in a row, with "
    "gradients (forward) and without (inference).",
    "It has no errors against fp64, only distances from eager; no eager times, memory, wall times, "
    "regions or segments.",
)
_HEADER = {"work", "exec", "fwd_us", "fwd_k", "fwd_sol"}
_PLACE = ("gpu_name", "copy_gbps", "command", "dtype")
_EXECUTORS = {"compile": "inductor", "compilemax": "inductor_tuned"}
# phase: the columns of first call, time, kernels, part of the roof, distance from eager
_PASSES = {
    "forward": ("compile_s", "fwd_us", "fwd_k", "fwd_sol", "err"),
    "backward": ("bwd_compile_s", "bwd_us", "bwd_k", "bwd_sol", "gerr"),
}
_HOST = {"forward": "host_us", "inference": "host_nograd_us"}


def is_foreign(table: pd.DataFrame) -> bool:
    """Whether the table is one of that harness."""
    return set(table.columns) >= _HEADER


def converted(table: pd.DataFrame, path: Path) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Rows, and notes on what they lack. Raises BadRows without the file that says where they were
    measured."""
    place = _place(path.with_suffix(".json"))
    lines = [{k: None if pd.isna(v) else v for k, v in row.items()} for _, row in table.iterrows()]
    rows = [row for line in lines for row in _rows(line, dict(place), path)]
    return pd.DataFrame(rows), NOTES


def _place(path: Path) -> dict[str, Any]:
    try:
        place = json.loads(path.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise BadRows(
            f"rows of peers/bench.py do not say where they were measured: {path} has to, a JSON "
            f"object with {', '.join(_PLACE)}: {error}"
        ) from error
    missing = [name for name in _PLACE if name not in place]
    if missing:
        raise BadRows(f"{path} lacks {', '.join(missing)}")
    return dict(place)


def _rows(line: dict[str, Any], place: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    work, _, dims = line["work"].partition("-")
    sizes = place.pop("sizes", {}).get(work, "")
    if dims:
        sizes = " ".join(
            f"{n}={d}" for n, d in zip(("rows", "columns"), dims.split("-"), strict=True)
        )
    executor = _EXECUTORS.get(line["exec"], line["exec"])
    common = {"workload": work, "sizes": sizes, "executor": executor, "target": "cuda", **place}
    for phase, (first, time, kernels, part, distance) in _PASSES.items():
        row = common | {"suite": "peers", "phase": phase, "first_call_s": line.get(first)}
        if line.get(time) is None:
            failure = line.get("fail")
            status = "error" if failure else "skipped"
            yield row | {"status": status, "error_msg": failure or "it was not measured"}
            continue
        us = _number(line, time, path)
        yield row | {
            "status": "ok",
            "kernel_us_p50": us,
            "n_kernels": line.get(kernels),
            "io_bytes_min": _number(line, part, path) * us * 1e3 * place["copy_gbps"],
            "err_vs_eager": line.get(distance),
        }
    for phase, host in _HOST.items():
        if line.get(host) is not None:
            us = _number(line, host, path)
            yield common | {
                "suite": "peers_host",
                "phase": phase,
                "status": "ok",
                "host_us_p50": us,
            }


def _number(line: dict[str, Any], column: str, path: Path) -> float:
    try:
        return float(line[column])
    except (TypeError, ValueError) as error:
        text = f"{path}: {column} of {line['work']} {line['exec']} is no number"
        raise BadRows(f"{text}: {line[column]!r}") from error
