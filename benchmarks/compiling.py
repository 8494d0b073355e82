"""What a first call takes: with empty caches, and in a second process that finds them filled.

Each measurement is a process of its own, which has compiled a trifle and run the workload once in
eager torch before its clock starts: imports and the start of a device are nobody's compilation.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks import kernels, rope
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
LIMIT_SECONDS = 1200
SHOWN = 300  # characters of what a process that died said last
_FIRST_LENGTH, _LENGTH_STEP = 131, 37


class ChildFailed(Exception):
    """The process that was to make the first call failed."""


def measure(job: Job) -> Iterator[Row]:
    """The rows of a job, a process for the cold and one for the warm call of each executor."""
    for executor, rows in job.missing:
        job.notice(executor.name)
        try:
            if executor.name == "eager":
                raise Absent("nothing is compiled")
            executor.load(job.device)
            with TemporaryDirectory(prefix="benchmarks-") as scratch:
                cold = _first_call(job, executor, Path(scratch))
                warm = _first_call(job, executor, Path(scratch))
            found = [_told(row, cold[row.phase], warm[row.phase]) for row in rows]
        except (Absent, ImportError) as reason:
            found = [skipped(row, reason) for row in rows]
        except Exception as failure:
            found = [failed(row, failure) for row in rows]
        yield from found


def _first_call(job: Job, executor: Executor, scratch: Path) -> Mapping[str, Any]:
    """What `benchmarks.first_call` found out, by phase. Raises Absent and ChildFailed."""
    wanted = {
        "suite": job.suite.name,
        "workload": job.workload.name,
        "sizes": dict(job.sizes),
        "executor": executor.name,
        "device": str(job.device),
    }
    result = scratch / "result.json"
    result.unlink(missing_ok=True)
    caches = {name: str(scratch / name.lower()) for name in CACHES}
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks.first_call", json.dumps(wanted), str(result)],
        cwd=ROOT,
        env={**os.environ, **caches},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=LIMIT_SECONDS,
        check=False,
    )
    if child.returncode or not result.exists():
        said = " ".join(child.stderr.split())[-SHOWN:]
        raise ChildFailed(f"exit status {child.returncode}: {said}")
    found: Mapping[str, Any] = json.loads(result.read_text())
    if "absent" in found:
        raise Absent(found["absent"])
    return found


def _told(row: Row, cold: Mapping[str, Any], warm: Mapping[str, Any]) -> Row:
    """Phases of compiling are those of the cold call, hits in caches those of the warm one."""
    costs = Costs(**cold["costs"])
    return replace(
        with_costs(row, replace(costs, cache_hits=warm["costs"]["cache_hits"])),
        first_call_s=cold["seconds"],
        first_call_s_cold=cold["seconds"],
        first_call_s_warm=warm["seconds"],
        err_vs_fp64=cold["error"],
        err_eager_vs_fp64=cold["eager_error"],
    )


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


def identical_layers(make: Make, *, layers: int, length: int, width: int) -> Case:
    """x (length, width) through `layers` equal layers: how much is compiled must not depend on how
    many there are."""
    with make.device:
        function = torch.nn.Sequential(*(Layer(width) for _ in range(layers))).to(make.dtype)
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
        {"layers": 32, "length": 2048, "width": 1024},
        {"layers": 3, "length": 7, "width": 16},
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
