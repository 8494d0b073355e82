"""compile_jobs and progress act on the kernels of a plan."""

from __future__ import annotations

import time
from dataclasses import replace
from threading import Lock
from typing import Any

import pytest
import torch

from tests.frontend.fusions import example
from thunder_fuser.frontend import FusionCache, FusionDefinition
from thunder_fuser.options import Options
from thunder_fuser.program import Program
from thunder_fuser.runtime import kernels
from thunder_fuser.runtime.host_compiler import compiler_available
from thunder_fuser.runtime.kernels import KERNELS
from thunder_fuser.runtime.toolchain import TOOLCHAINS

pytestmark = pytest.mark.skipif(not compiler_available(), reason="no C++ compiler")
KERNEL_COUNT = 4


@pytest.fixture(autouse=True)
def no_kernel_is_loaded() -> None:
    KERNELS.clear()


def several_kernels(x: torch.Tensor) -> FusionDefinition:
    with FusionDefinition(cache=FusionCache(Program)) as fd:
        (a,) = example(fd, x)
        for op in (fd.ops.sin, fd.ops.exp, fd.ops.tanh, fd.ops.cos):
            a = fd.ops.segment_set(op(a))
        fd.add_output(a)
    return fd


@pytest.mark.parametrize(("jobs", "cores", "most"), [(1, 8, 1), (3, 1, 3), (None, 2, 2)])
def test_compile_jobs_bounds_how_many_compile_at_once(
    jobs: int | None, cores: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where none are given as many as there are cores."""
    monkeypatch.setattr(kernels, "_cores", lambda: cores)
    chain, lock, running, peak = TOOLCHAINS["host"], Lock(), 0, 0

    def compile_slowly(*args: Any) -> Any:
        nonlocal running, peak
        with lock:
            running += 1
            peak = max(peak, running)
        time.sleep(0.05)
        try:
            return chain.compile(*args)
        finally:
            with lock:
                running -= 1

    monkeypatch.setitem(TOOLCHAINS, "host", replace(chain, compile=compile_slowly))
    x = torch.randn(3, 5)
    several_kernels(x).execute([x], options=Options(cache="off", compile_jobs=jobs))
    assert KERNELS.statistics().compiled == KERNEL_COUNT
    assert peak == most


@pytest.mark.parametrize(("mode", "speaks"), [("on", True), ("off", False), ("auto", False)])
def test_progress_is_shown_as_asked_for(
    mode: str, speaks: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    x = torch.randn(3, 5)
    several_kernels(x).execute([x], options=Options(cache="off", progress=mode))
    shown = f"thunder_fuser: 1/{KERNEL_COUNT} kernels ready, 0 from the cache"
    assert (shown in capsys.readouterr().err) is speaks
