"""The rows: one JSON object per line, one line per workload, executor and pass.

A line is written when its pass is measured, so a crash loses that one at most.
"""

from __future__ import annotations

import json
import platform
import subprocess
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

import torch

HOST, CUDA = "host", "cuda"  # targets; rows of one are never compared with rows of the other
ROOT = Path(__file__).parent.parent
Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Environment:
    """Where and when. `copy_gbps` is the roof measured in this run."""

    timestamp_utc: str
    command: str
    git_sha: str
    git_dirty: bool
    target: str
    gpu_name: str | None
    cpu_name: str
    python: str
    torch: str
    thunder: str
    thunder_fuser: str
    copy_gbps: float | None


@dataclass(frozen=True)
class Row:
    """A pass of a workload under an executor. Times are microseconds, None where not measured.

    `status` is ok, error, oom or skipped; all but ok say why in `error_msg`. Errors are relative to
    fp64, `err_eager_vs_fp64` those of eager torch. `first_call_s` has compilation in it, from
    whatever the executor's caches on disk hold.
    """

    workload: str
    executor: str
    phase: str
    dtype: str
    sizes: str
    status: str
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
    n_kernels: int | None = None
    io_bytes_min: int | None = None
    peak_alloc_mib: float | None = None
    first_call_s: float | None = None
    err_vs_fp64: float | None = None
    err_eager_vs_fp64: float | None = None

    @property
    def key(self) -> Key:
        return (self.workload, self.executor, self.phase, self.sizes)


def environment(device: torch.device, command: str, roof: float | None) -> Environment:
    """Of this process. Versions of what is not installed are 'none'."""
    return Environment(
        timestamp_utc=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        command=command,
        git_sha=_git("rev-parse", "HEAD") or "none",
        git_dirty=bool(_git("status", "--porcelain", "--untracked-files=no")),
        target=CUDA if device.type == "cuda" else HOST,
        gpu_name=_gpu_name(device),
        cpu_name=_cpu_name(),
        python=platform.python_version(),
        torch=torch.__version__,
        thunder=_version("lightning-thunder"),
        thunder_fuser=_version("thunder-fuser"),
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


def resume(path: Path, device: torch.device) -> set[Key]:
    """The rows that an interrupted run wrote. A last line that it did not finish is cut off.

    Raises ValueError for rows of another device and for lines that are no rows.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        return set()
    whole, newline, _ = path.read_text().rpartition("\n")
    path.write_text(whole + newline)
    here, done = _gpu_name(device), set()
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            row = json.loads(line)
            key = (row["workload"], row["executor"], row["phase"], row["sizes"])
            there = row["gpu_name"]
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{path}:{number} is no row of a benchmark: {error!r}") from error
        if there != here:
            names = [name or "the host target" for name in (there, here)]
            raise ValueError(f"{path} has rows of {names[0]}, not {names[1]}")
        done.add(key)
    return done


def _gpu_name(device: torch.device) -> str | None:
    return str(torch.cuda.get_device_name(device)) if device.type == "cuda" else None


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
