"""The rows: one JSON object per line, one line per workload, executor and pass.

A line is written when its pass is measured, so a crash loses that one at most.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import TypeAlias

import torch

import thunder_fuser
from thunder_fuser.runtime.driver_version import driver_version

HOST, CUDA = "host", "cuda"  # targets; rows of one are never compared with rows of the other
ROOT = Path(__file__).parent.parent
IDENTITY = ("suite", "workload", "executor", "phase", "sizes")
Key: TypeAlias = "tuple[str, ...]"  # of what IDENTITY names


@dataclass(frozen=True)
class Environment:
    """Where and when. A run that is resumed keeps its `run_id`. `copy_gbps` is the roof measured in
    this run; what there is no GPU for is None."""

    run_id: str
    timestamp_utc: str
    command: str
    git_sha: str
    git_dirty: bool
    target: str
    gpu_name: str | None
    gpu_uuid: str | None
    cpu_name: str
    python: str
    torch: str
    thunder: str
    thunder_fuser: str
    litgpt: str
    nvrtc: str
    driver: str | None
    clocks_locked: bool | None
    copy_gbps: float | None


@dataclass(frozen=True)
class Row:
    """A pass of a workload under an executor. Times are microseconds or, where the name says so,
    seconds; None where not measured. docs/benchmarks.md tells how each is measured.

    `status` is ok, error, oom, timeout or skipped; all but ok say why in `error_msg`. Errors are
    relative to fp64, `err_eager_vs_fp64` those of eager torch. What a kernel or a trace is made of
    is known of our executor only.
    """

    suite: str
    workload: str
    executor: str
    phase: str
    dtype: str
    sizes: str
    status: str
    executor_options: str = ""
    seq_len: int | None = None
    error_type: str | None = None
    error_msg: str | None = None
    kernel_us_p20: float | None = None
    kernel_us_p50: float | None = None
    kernel_us_p80: float | None = None
    host_us_p20: float | None = None
    host_us_p50: float | None = None
    host_us_p80: float | None = None
    wall_us_p20: float | None = None
    wall_us_p50: float | None = None
    wall_us_p80: float | None = None
    trial_us: tuple[float, ...] | None = None
    n_samples: int | None = None
    tokens_per_s: float | None = None
    sm_clock_mhz: float | None = None
    mem_clock_mhz: float | None = None
    power_w: float | None = None
    temp_c: float | None = None
    throttled: bool | None = None
    n_regions: int | None = None
    n_segments: int | None = None
    n_kernels: int | None = None
    n_unclaimed_ops: int | None = None
    bytes_at_cuts: int | None = None
    io_bytes_min: int | None = None
    io_bytes_moved: int | None = None
    regs_max: int | None = None
    spill_bytes: int | None = None
    smem_bytes: int | None = None
    peak_alloc_mib: float | None = None
    saved_for_backward_mib: float | None = None
    first_call_s: float | None = None
    first_call_s_cold: float | None = None
    first_call_s_warm: float | None = None
    cold_samples_s: tuple[float, ...] | None = None
    warm_samples_s: tuple[float, ...] | None = None
    trace_s: float | None = None
    fuse_s: float | None = None
    codegen_s: float | None = None
    nvrtc_s: float | None = None
    tune_s: float | None = None
    n_compiled: int | None = None
    n_cache_hit: int | None = None
    err_vs_fp64: float | None = None
    err_eager_vs_fp64: float | None = None

    @property
    def key(self) -> Key:
        return tuple(getattr(self, name) for name in IDENTITY)


def is_failure(executor: str, status: str) -> bool:
    """Whether a run that has such a row failed: peers may."""
    return executor == "ours" and status not in ("ok", "skipped")


def environment(
    device: torch.device,
    command: str,
    run_id: str,
    roof: float | None,
    clocks_locked: bool | None = None,
) -> Environment:
    """Of this process. Versions of what is not installed are 'none'; a copy of a clean checkout is
    told the commit by GIT_COMMIT, whatever a .git beside it says."""
    told = os.environ.get("GIT_COMMIT")
    return Environment(
        run_id=run_id,
        timestamp_utc=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        command=command,
        git_sha=told or _git("rev-parse", "HEAD") or "none",
        git_dirty=not told and bool(_git("status", "--porcelain", "--untracked-files=no")),
        target=CUDA if device.type == "cuda" else HOST,
        gpu_name=gpu_name(device),
        gpu_uuid=gpu_uuid(device),
        cpu_name=_cpu_name(),
        python=platform.python_version(),
        torch=torch.__version__,
        thunder=_version("lightning-thunder"),
        thunder_fuser=thunder_fuser.__version__,
        litgpt=_version("litgpt"),
        nvrtc=_version("nvidia-cuda-nvrtc"),
        driver=driver_version() if device.type == "cuda" else None,
        clocks_locked=clocks_locked,
        copy_gbps=roof,
    )


def append(path: Path, row: Row, where: Environment) -> None:
    """Add a line."""
    with path.open("a") as file:
        file.write(json.dumps(asdict(row) | asdict(where)) + "\n")


def start(path: Path) -> None:
    """Make way for a new run: `rows.jsonl` of an earlier one becomes `rows.previous.jsonl`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.replace(path.with_suffix(f".previous{path.suffix}"))


def gpu_name(device: torch.device) -> str | None:
    """None on the host target."""
    return str(torch.cuda.get_device_name(device)) if device.type == "cuda" else None


def gpu_uuid(device: torch.device) -> str | None:
    """As NVML writes it; None on the host target."""
    if device.type != "cuda":
        return None
    return f"GPU-{str(torch.cuda.get_device_properties(device).uuid).removeprefix('GPU-')}"


def _git(*arguments: str) -> str:
    try:
        found = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout.strip()


def _cpu_name() -> str:
    """Linux tells it in a file; elsewhere the architecture has to do."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "none"
