"""What a first call takes: with empty caches, and in a second process that finds them filled.

Each measurement is a process of its own, which has compiled a trifle and run the workload once in
eager torch before its clock starts: imports and the start of a device are nobody's compilation.
Several such pairs run, beside each other where there are cores for it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F

from benchmarks import kernels, process, rope
from benchmarks.cases import PASSES, STEP, Case, Make, Sizes, Workload
from benchmarks.costs import Costs
from benchmarks.executors import Absent, Executor
from benchmarks.fill import with_costs
from benchmarks.jobs import Job, failed, skipped
from benchmarks.rows import ROOT, Row

CACHES = (
    *("THUNDER_FUSER_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"),
    *("TRITON_CACHE_DIR", "CUDA_CACHE_PATH"),
)
Found: TypeAlias = "Mapping[str, Any]"  # by phase
SAMPLES = {"cuda": 3, "cpu": 2}
CORES = 4  # that a process may use: compilers are threads or processes of their own
LIMIT_SECONDS = 140  # a process; less than the --limit of a run, which would end others too
SHOWN = 300  # characters of what a process that died said last
_FIRST_LENGTH, _LENGTH_STEP = 131, 37


class ChildFailed(Exception):
    """The process that was to make the first call failed."""


def measure(job: Job) -> Iterator[Row]:
    """The rows of a job, processes for the cold and for the warm calls of each executor."""
    for executor, rows in job.missing:
        job.notice(executor.name)
        try:
            if executor.name == "eager":
                raise Absent("nothing is compiled")
            executor.load(job.device)
            cold, warm = _samples(job, executor)
            found = [_told(row, _of(row, cold), _of(row, warm)) for row in rows]
        except (Absent, ImportError) as reason:
            found = [skipped(row, reason) for row in rows]
        except Exception as failure:
            found = [failed(row, failure) for row in rows]
        yield from found


def _samples(job: Job, executor: Executor) -> tuple[Sequence[Found], Sequence[Found]]:
    """Of processes that find no caches, and of others that find what those left."""
    count = SAMPLES[job.device.type]
    at_once = max(1, min(count, (os.cpu_count() or 1) // CORES))
    call = partial(_first_call, job, executor)
    with TemporaryDirectory(prefix="benchmarks-") as scratch:
        places = [Path(scratch) / str(number) for number in range(count)]
        for place in places:
            place.mkdir()
        with ThreadPoolExecutor(at_once) as pool:
            cold = list(pool.map(call, places))
            job.notice(executor.name)
            return cold, list(pool.map(call, places))


def _first_call(job: Job, executor: Executor, scratch: Path) -> Found:
    """What `benchmarks.first_call` found out. Raises Absent and ChildFailed."""
    wanted = {
        "suite": job.suite.name,
        "workload": job.workload.name,
        "sizes": dict(job.sizes),
        "executor": executor.name,
        "device": str(job.device),
    }
    result, said = scratch / "result.json", scratch / "said.txt"
    result.unlink(missing_ok=True)
    caches = {name: str(scratch / name.lower()) for name in CACHES}
    command = [sys.executable, "-m", "benchmarks.first_call", json.dumps(wanted), str(result)]
    with said.open("w") as output:
        child = process.start(command, ROOT, {**os.environ, **caches}, output)
        try:
            status = child.wait(LIMIT_SECONDS)
        except subprocess.TimeoutExpired as late:
            raise ChildFailed(f"no first call in {LIMIT_SECONDS} s: {_end_of(said)}") from late
        finally:
            process.end(child)
    if status or not result.exists():
        raise ChildFailed(f"exit status {status}: {_end_of(said)}")
    found: Found = json.loads(result.read_text())
    if "absent" in found:
        raise Absent(found["absent"])
    return found


def _end_of(said: Path) -> str:
    return " ".join(said.read_text(errors="replace").split())[-SHOWN:]


def _of(row: Row, samples: Sequence[Found]) -> Sequence[Mapping[str, Any]]:
    return [sample[row.phase] for sample in samples]


def _told(row: Row, cold: Sequence[Mapping[str, Any]], warm: Sequence[Mapping[str, Any]]) -> Row:
    """Phases of compiling are those of the middle cold call, hits in caches those of the first warm
    one; the error is the largest."""
    middle = sorted(cold, key=_seconds)[(len(cold) - 1) // 2]
    costs = Costs(**middle["costs"])
    errors = [sample["error"] for sample in (*cold, *warm)]
    cold_s, warm_s = (tuple(map(_seconds, samples)) for samples in (cold, warm))
    return replace(
        with_costs(row, replace(costs, cache_hits=warm[0]["costs"]["cache_hits"])),
        first_call_s=median(cold_s),
        first_call_s_cold=median(cold_s),
        first_call_s_warm=median(warm_s),
        cold_samples_s=cold_s,
        warm_samples_s=warm_s,
        n_samples=len(cold),
        err_vs_fp64=None if None in errors else max(errors),
        err_eager_vs_fp64=cold[0]["eager_error"],
    )


def _seconds(sample: Mapping[str, Any]) -> float:
    return float(sample["seconds"])


class Layer(torch.nn.Module):  # type: ignore[misc]
    """A norm and a gated feed-forward network around which the input passes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.gate, self.up = (torch.nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(2 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


def identical_layers(make: Make, *, depth: int, length: int, width: int) -> Case:
    """x (length, width) through `depth` equal layers: how much is compiled must not depend on how
    many there are."""
    with make.device:
        function = torch.nn.Sequential(*(Layer(width) for _ in range(depth))).to(make.dtype)
    return Case(function, (make.random(length, width),))


def changing_lengths(make: Make, *, lengths: int, width: int) -> Case:
    """An RMS norm of (length, width), called with one length after the other."""
    found = [
        kernels.rms_norm(make, rows=_FIRST_LENGTH + k * _LENGTH_STEP, columns=width)
        for k in range(lengths)
    ]
    return replace(found[-1], calls=tuple(case.inputs for case in found))


def _workload(
    name: str, build: Callable[..., Case], sizes: Sizes, quick: Sizes, **more: Any
) -> Workload:
    return Workload(name, build, (sizes,), (quick,), **more)


WORKLOADS: Sequence[Workload] = (
    replace(rope.ANCHORS[1], name="rope", phases=PASSES),
    _workload(
        "norm",
        kernels.layer_norm,
        {"rows": 16384, "columns": 4096},
        {"rows": 9, "columns": 40},
    ),
    _workload(
        "identical_layers",
        identical_layers,
        {"depth": 32, "length": 2048, "width": 1024},
        {"depth": 3, "length": 7, "width": 16},
        phases=(STEP,),
    ),
    _workload(
        "changing_lengths",
        changing_lengths,
        {"lengths": 20, "width": 4096},
        {"lengths": 4, "width": 40},
        phases=(STEP,),
        is_dynamic=True,
    ),
)
