"""Bursts of calls: executors take turns, and one that fails leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from benchmarks.cases import FORWARD, INFERENCE, Case, Function
from benchmarks.executors import EXECUTORS, Executor, Keywords
from benchmarks.jobs import jobs
from benchmarks.latency import BURSTS, HOST_BURST, TRIALS, WARM_UP
from benchmarks.rows import Row
from benchmarks.run import measured
from benchmarks.suites import SUITES

CPU = torch.device("cpu")
SUITE = next(suite for suite in SUITES if suite.name == "host")
EAGER = EXECUTORS[0]


def rows(*executors: Executor) -> list[Row]:
    suite = replace(SUITE, workloads=[w for w in SUITE.workloads if w.name == "many_tensors"])
    return list(measured(jobs([suite], executors, CPU, is_quick=True), lambda running: None))


def counting(name: str, seen: list[bool], limit: int = 10**9) -> Executor:
    def compiled(case: Case, keywords: Keywords) -> Function:
        def call(*inputs: torch.Tensor) -> object:
            seen.append(torch.is_grad_enabled())
            if len(seen) > limit:
                raise ValueError("no more")
            return case.function(*inputs)

        return call

    return Executor(name, lambda device: compiled)


def test_calls_come_in_bursts_with_and_without_a_gradient() -> None:
    seen: list[bool] = []
    forward, inference = rows(counting("counted", seen))
    assert (forward.phase, inference.phase) == (FORWARD, INFERENCE)
    calls = WARM_UP + TRIALS * BURSTS * HOST_BURST
    judged = [True, False]
    assert seen == judged + calls * [True] + calls * [False]
    for row in (forward, inference):
        assert row.n_samples == TRIALS * BURSTS
        assert row.trial_us is not None
        assert len(row.trial_us) == TRIALS
        assert row.wall_us_p50 is not None
        assert min(row.trial_us) <= row.wall_us_p50 <= max(row.trial_us)
        assert row.host_us_p50 is row.kernel_us_p50 is None


def test_one_that_fails_midway_leaves_the_others_alone() -> None:
    found = rows(counting("limited", [], limit=30), EAGER)
    status = {(row.executor, row.phase): row.status for row in found}
    assert status == {
        ("limited", FORWARD): "error",
        ("limited", INFERENCE): "error",
        ("eager", FORWARD): "ok",
        ("eager", INFERENCE): "ok",
    }


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_the_host_is_timed() -> None:
    suite = replace(SUITE, workloads=[w for w in SUITE.workloads if w.name == "pointwise"])
    planned = jobs([suite], [EAGER], torch.device("cuda"), is_quick=True)
    for row in measured(planned, lambda running: None):
        assert row.host_us_p50 is not None
        assert row.host_us_p50 > 0
        assert row.wall_us_p50 is None
