"""What TORCH_TRACE holds of a run: read from the log that torch writes, as tlparse reads it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from torch._logging._internal import LazyTraceHandler

from thunder_fuser.runtime import artifacts
from thunder_fuser.runtime.host_compiler import compiler_available

SCRIPT = """\
import thunder, torch
from thunder_fuser import fuser
from thunder_fuser.executor.explain import regions_of
jfn = thunder.jit(lambda x: torch.exp(x) * 2, executors=[fuser])
jfn(torch.randn(3, 5))
(region,) = regions_of(jfn)
print(*region.plans())
"""


def read(directory: Path) -> dict[str, str]:
    """The payload of every artifact: a line of metadata, then lines that begin with a tab."""
    (log,) = directory.glob("dedicated_log_torch_trace_*.log")
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in log.read_text().splitlines():
        if line.startswith("\t"):
            lines.append(line[1:])
            continue
        record = json.loads(line[line.index("] ") + 2 :])
        lines = []
        if "artifact" in record:
            assert record["artifact"]["name"] not in found
            lines = found[record["artifact"]["name"]] = []
    return {name: "\n".join(payload) for name, payload in found.items()}


def traced(directory: Path) -> str:
    """What the script prints, which is its plan."""
    environment = {**os.environ, "TORCH_TRACE": str(directory)}
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    done = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True)
    return done.stdout


@pytest.mark.skipif(not compiler_available(), reason="no C++ compiler")
def test_segments_kernels_and_plans_are_artifacts(tmp_path: Path) -> None:
    plan = traced(tmp_path)
    found = {k: v for k, v in read(tmp_path).items() if k.startswith("thunder_fuser_")}
    assert list(found) == [
        "thunder_fuser_TF0_segments",
        "thunder_fuser_TF0_kernel_0.cu",
        "thunder_fuser_TF0_plan.py",
    ]
    segments, kernel, function = found.values()
    assert segments.startswith("segment 0 (kernel; the region): reads T0; writes T2\n")
    assert 'extern "C" __global__' in kernel
    assert plan.rstrip() == f"{segments}\n{function}".rstrip()


def test_torchs_handler_without_a_directory_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for directory, wanted in ((None, False), (str(tmp_path), True)):
        monkeypatch.setattr(artifacts.trace_log, "handlers", [LazyTraceHandler(directory)])
        assert artifacts.is_traced() == wanted


def test_a_torch_without_these_functions_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "trace_log", None)
    assert not artifacts.is_traced()
