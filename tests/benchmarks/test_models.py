"""LitGPT's models: scaled down they keep the kind of their layers; a step is judged as a whole."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
import torch

from benchmarks import models
from benchmarks.cases import INFERENCE, STEP, Make, Workload
from benchmarks.executors import EXECUTORS
from benchmarks.jobs import Suite, jobs
from benchmarks.models import MODELS, Model
from benchmarks.rows import Row
from benchmarks.run import measured
from benchmarks.suites import SUITES

CPU = torch.device("cpu")
SUITE = next(suite for suite in SUITES if suite.name == "models")
BY_NAME = {workload.name: workload for workload in models.WORKLOADS}


def rows(workload: Workload, *names: str) -> list[Row]:
    chosen = [executor for executor in EXECUTORS if executor.name in names]
    suite = Suite(SUITE.name, SUITE.summary, [workload], SUITE.measure, SUITE.by_wall)
    return list(measured(jobs([suite], chosen, CPU, is_quick=True), lambda running: None))


@pytest.mark.parametrize("found", MODELS, ids=lambda found: found.name)
def test_a_small_model_has_the_layers_of_the_large_one(found: Model) -> None:
    config = pytest.importorskip("litgpt.config")
    workload = BY_NAME[found.name]
    small = workload.case(CPU, workload.quick[0]).function.config  # type: ignore[attr-defined]
    large = config.Config.from_name(found.config)
    for name in ("norm_class_name", "mlp_class_name", "rotary_percentage", "parallel_residual"):
        assert getattr(small, name) == getattr(large, name)
    assert small.n_head // small.n_query_groups == large.n_head // large.n_query_groups
    assert (small.n_layer, small.n_embd) == (1, 64)
    assert large.block_size >= found.length >= workload.sizes[0]["length"]


def test_a_window_that_hides_nothing_is_left_out() -> None:
    """The block computes what LitGPT's own loop over the rows of its mask makes of it."""
    litgpt = pytest.importorskip("litgpt.model")
    make = Make(CPU, torch.float32, torch.float32)
    sizes = {"config": "Gemma-2-2b", "batch": 1, "length": 24, "width": 64}
    case = models.block(make, **sizes)
    assert not case.function.attn.apply_sliding_window_attention  # type: ignore[attr-defined]
    for window, is_equal in ((24, True), (23, False)):
        config = models._config("Gemma-2-2b", 1, 64, length=10_000)  # longer than any window
        config.sliding_window_size = window
        windowed = litgpt.Block(config, 0)
        windowed.load_state_dict(case.function.state_dict())  # type: ignore[attr-defined]
        assert windowed.attn.apply_sliding_window_attention
        same = torch.allclose(windowed(*case.inputs), case.function(*case.inputs), atol=1e-5)
        assert same is is_equal


def test_a_step_and_inference_of_a_model_are_rows() -> None:
    pytest.importorskip("litgpt")
    found = rows(BY_NAME["pythia_1_4b"], "eager")
    assert [row.phase for row in found] == [STEP, INFERENCE]
    for row in found:
        assert (row.status, row.seq_len) == ("ok", 12)
        assert row.err_vs_fp64 == row.err_eager_vs_fp64
        assert row.err_vs_fp64 is not None
        assert 1e-4 < row.err_vs_fp64 < 5e-2  # bf16 has eight bits
        assert row.wall_us_p50 is not None
        assert row.tokens_per_s == pytest.approx(12 / row.wall_us_p50 * 1e6)
    step, inference = found
    assert step.saved_for_backward_mib is not None
    assert step.saved_for_backward_mib > 0
    assert inference.saved_for_backward_mib is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU CPU tensors are left alone")
def test_ours_takes_a_block() -> None:
    pytest.importorskip("litgpt")
    for row in rows(replace(BY_NAME["llama3_8b_block"], phases=(STEP,)), "ours"):
        assert row.status == "ok", row.error_msg
        assert row.err_vs_fp64 is not None
        assert row.err_eager_vs_fp64 is not None
        assert row.err_vs_fp64 < 1.5 * row.err_eager_vs_fp64
        assert row.n_kernels is not None
        assert row.n_kernels > 3


def test_without_litgpt_the_rows_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "litgpt.model", None)
    found = rows(BY_NAME["pythia_1_4b"], "eager", "ours")
    assert [row.status for row in found] == 4 * ["skipped"]
    assert "litgpt" in str(found[0].error_msg)
