"""First calls in processes of their own: cold, then warm."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks import compiling
from benchmarks.cases import BACKWARD, FORWARD, STEP
from benchmarks.compiling import SAMPLES, WORKLOADS
from benchmarks.executors import EXECUTORS
from benchmarks.first_call import first_call
from benchmarks.jobs import Job, jobs
from benchmarks.numerics import reference
from benchmarks.rows import Row
from benchmarks.run import measured
from benchmarks.suites import SUITES

CPU = torch.device("cpu")
SUITE = next(suite for suite in SUITES if suite.name == "compile")
EXECUTOR = {executor.name: executor for executor in EXECUTORS}
WORKLOAD = {workload.name: workload for workload in WORKLOADS}
needs_no_gpu = pytest.mark.skipif(
    torch.cuda.is_available(), reason="with a GPU CPU tensors are left alone"
)


def planned(name: str, *executors: str) -> list[Job]:
    suite = replace(SUITE, workloads=[WORKLOAD[name]])
    return jobs([suite], [EXECUTOR[executor] for executor in executors], CPU, is_quick=True)


def rows(name: str, *executors: str) -> list[Row]:
    return list(measured(planned(name, *executors), lambda running: None))


@needs_no_gpu
def test_a_second_process_finds_what_the_first_compiled() -> None:
    forward, backward = rows("norm", "ours")
    for row in (forward, backward):
        assert row.status == "ok", row.error_msg
        assert row.n_compiled
        assert row.n_cache_hit == row.n_compiled
        assert row.first_call_s_cold is not None
        assert row.first_call_s_warm is not None
        assert row.first_call_s == row.first_call_s_cold
        assert row.cold_samples_s is not None
        assert row.warm_samples_s is not None
        assert len(row.cold_samples_s) == len(row.warm_samples_s) == SAMPLES["cpu"]
        assert min(row.cold_samples_s) <= row.first_call_s_cold <= max(row.cold_samples_s)
        assert row.nvrtc_s is not None
        assert 0 < row.nvrtc_s < row.first_call_s_cold
        assert row.err_vs_fp64 is not None
        assert row.err_vs_fp64 < 1e-2
    assert forward.trace_s
    assert backward.trace_s == 0


def test_a_process_that_dies_is_a_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho no such driver >&2\nkill -9 $$\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    (row,) = rows("identical_layers", "ours")
    assert (row.status, row.error_type) == ("error", "ChildFailed")
    assert row.error_msg == "exit status -9: no such driver"


def test_a_process_that_hangs_is_ended_and_is_a_row(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where one that it started holds on to its output."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho tuning\nsleep 600 &\nwait\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(compiling, "LIMIT_SECONDS", 0.5)
    (row,) = rows("identical_layers", "ours")
    assert (row.status, row.error_type) == ("error", "ChildFailed")
    assert row.error_msg == "no first call in 0.5 s: tuning"


def test_executors_that_are_not_here_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere")
    assert [row.status for row in rows("identical_layers", "eager", "inductor_tuned", "liger")] == (
        3 * ["skipped"]
    )


def kernels_for(layers: int) -> int:
    """How many kernels this process had to get that it did not have."""
    case = WORKLOAD["identical_layers"].case(CPU, {"depth": layers, "length": 7, "width": 48})
    case = replace(case, calls=(case.inputs,))
    ours = EXECUTOR["ours"]
    function = ours.load(CPU)(case, {})
    expected = reference(case, (STEP,))
    costs = first_call(function, ours, case, expected, CPU, (STEP,))[STEP]["costs"]
    return int(costs["compiled"] + costs["cache_hits"])


@needs_no_gpu
def test_more_layers_need_no_more_kernels() -> None:
    assert kernels_for(3) > 0
    assert kernels_for(4) == 0


def test_every_length_is_called_and_the_last_one_judged() -> None:
    workload = WORKLOAD["changing_lengths"]
    case = workload.case(CPU, workload.quick[0])
    assert len({call[0].size(0) for call in case.calls}) == workload.quick[0]["lengths"]
    phases = (FORWARD, BACKWARD, STEP)
    expected = reference(replace(case, inputs=case.calls[-1]), phases)
    called: list[int] = []

    def function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        called.append(x.size(0))
        return case.function(x, weight) * (1.1 if len(called) == len(case.calls) else 1.0)  # type: ignore[no-any-return]

    eager = EXECUTOR["eager"]
    found = first_call(function, eager, case, expected, CPU, phases)
    assert called == [call[0].size(0) for call in case.calls]
    assert found[FORWARD]["error"] == pytest.approx(0.1, rel=0.05)
    assert found[STEP]["seconds"] == found[FORWARD]["seconds"] + found[BACKWARD]["seconds"]
