"""The loop: rows of what runs, of what is absent, of what fails; resuming."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from benchmarks.__main__ import main
from benchmarks.executors import EXECUTORS, Absent, Compile, Executor
from benchmarks.rows import Row, resume
from benchmarks.run import rows
from benchmarks.workloads import WORKLOADS

CPU = torch.device("cpu")
EAGER = EXECUTORS[0]
SOFTMAX = next(workload for workload in WORKLOADS if workload.name == "softmax")
needs_no_gpu = pytest.mark.skipif(
    torch.cuda.is_available(), reason="with a GPU the command runs there"
)


def measured(*executors: Executor) -> Sequence[Row]:
    return list(rows([SOFTMAX], executors, CPU, is_quick=True))


def test_a_row_holds_wall_times_and_errors_on_the_host_target() -> None:
    for row in measured(EAGER):
        assert row.status == "ok"
        assert row.kernel_us_p50 is row.host_us_p50 is row.peak_alloc_mib is None
        assert row.wall_us_p50 is not None
        assert 0 < row.wall_us_p50 < 1e6
        assert row.trial_us is not None
        assert len(row.trial_us) == 3
        assert row.err_vs_fp64 == row.err_eager_vs_fp64
        assert row.err_vs_fp64 is not None
        assert 1e-4 < row.err_vs_fp64 < 1e-2  # bf16 has eight bits


def test_an_absent_executor_says_why_and_the_next_runs() -> None:
    def load(device: torch.device) -> Compile:
        raise Absent("not here")

    found = measured(Executor("absent", load), EAGER)
    assert [(row.status, row.error_msg) for row in found] == [
        *2 * [("skipped", "not here")],
        *2 * [("ok", None)],
    ]


def test_a_failing_forward_keeps_its_rows() -> None:
    def load(device: torch.device) -> Compile:
        def fail(x: torch.Tensor) -> torch.Tensor:
            raise ValueError("no such\n  kernel")

        return lambda function: fail

    found = measured(Executor("failing", load), EAGER)
    assert [row.status for row in found] == ["error", "error", "ok", "ok"]
    assert (found[0].error_type, found[0].error_msg) == ("ValueError", "no such kernel")


def test_a_wrong_result_has_an_error_to_show() -> None:
    scaled = Executor("scaled", lambda device: lambda function: lambda x: function(x) * 1.1)
    not_finite = Executor("nan", lambda device: lambda function: lambda x: function(x) * math.nan)
    errors = [row.err_vs_fp64 for row in measured(scaled, not_finite)]
    assert errors[0] == pytest.approx(0.1, rel=0.05)
    assert errors[2] == math.inf


@needs_no_gpu
def test_ours_runs_a_workload_through_kernels_on_the_host_target() -> None:
    ours = next(executor for executor in EXECUTORS if executor.name == "ours")
    for row in measured(ours):
        assert row.status == "ok", row.error_msg
        assert row.err_vs_fp64 is not None
        assert row.err_eager_vs_fp64 is not None
        assert row.err_vs_fp64 <= 1.01 * row.err_eager_vs_fp64


@needs_no_gpu
def test_a_run_is_resumed_where_it_broke_off(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    call = ["--quick", "--work", "softmax,swiglu", "--exec", "eager", "--out", str(out)]
    assert main(call) == 0
    whole = out.read_text().splitlines()
    out.write_text("\n".join(whole[:3]) + "\n" + whole[3][:40])
    assert main([*call, "--resume"]) == 0
    found = [json.loads(line) for line in out.read_text().splitlines()]
    names = [(row["workload"], row["phase"]) for row in found]
    passes = ("forward", "backward")
    assert names == [(work, phase) for work in ("softmax", "swiglu") for phase in passes]
    assert out.read_text().splitlines()[:3] == whole[:3]
    assert {row["target"] for row in found} == {"host"}


@needs_no_gpu
def test_a_new_run_keeps_the_rows_of_the_last(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    out.write_text("old\n")
    assert main(["--quick", "--work", "softmax", "--exec", "eager", "--out", str(out)]) == 0
    assert (tmp_path / "rows.previous.jsonl").read_text() == "old\n"


def test_rows_of_another_device_are_not_added_to(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    row = {
        "suite": "s",
        "workload": "w",
        "executor": "e",
        "phase": "forward",
        "sizes": "",
        "gpu_name": "H200",
    }
    out.write_text(json.dumps(row) + "\n")
    with pytest.raises(ValueError, match="has rows of H200, not the host target"):
        resume(out, CPU)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (["--work", "sofmax"], "no workload 'sofmax': did you mean softmax?"),
        (["--exec", "nvfusser"], "no executor 'nvfusser': did you mean nvfuser?"),
        (["--exec", "zzz"], "no executor 'zzz': there are eager, "),
    ],
)
def test_unknown_names_get_the_nearest(
    call: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--quick", *call]) == 2
    assert message in capsys.readouterr().err


@needs_no_gpu
def test_full_sizes_are_refused_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "add --quick" in capsys.readouterr().err
