"""The loop: rows of what runs, of what is absent, of what fails; resuming."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.__main__ import main
from benchmarks.cases import Case, Function
from benchmarks.executors import EXECUTORS, Absent, Compile, Executor, Keywords
from benchmarks.jobs import jobs
from benchmarks.note import Running, noting
from benchmarks.pace import OUT_OF_TIME
from benchmarks.resume import resume
from benchmarks.rows import Row
from benchmarks.run import measured as all_rows
from benchmarks.selection import select
from benchmarks.suites import SUITES
from tests import fresh

CPU = torch.device("cpu")
EAGER = EXECUTORS[0]
SOFTMAX = select(SUITES, "kernels", "softmax", {})
needs_no_gpu = pytest.mark.skipif(
    torch.cuda.is_available(), reason="with a GPU the command runs there"
)


def measured(*executors: Executor, culprit: Running | None = None) -> Sequence[Row]:
    planned = jobs(SOFTMAX, executors, CPU, is_quick=True)
    return list(all_rows(planned, lambda running: None, culprit=culprit))


def executor(name: str, change: Callable[[Function], Function]) -> Executor:
    """One that runs a changed function."""

    def compiled(case: Case, keywords: Keywords) -> Function:
        return change(case.function)

    return Executor(name, lambda device: compiled)


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
    def fail(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no such\n  kernel")

    found = measured(executor("failing", lambda function: fail), EAGER)
    assert [row.status for row in found] == ["error", "error", "ok", "ok"]
    assert (found[0].error_type, found[0].error_msg) == ("ValueError", "no such kernel")


def test_one_that_fails_only_when_it_is_timed_keeps_its_row() -> None:
    def limited(function: Function) -> Function:
        calls = iter(range(3))

        def call(x: torch.Tensor) -> torch.Tensor:
            if next(calls, None) is None:
                raise torch.OutOfMemoryError("no room")
            return function(x)  # type: ignore[no-any-return]

        return call

    found = {
        (row.executor, row.phase): row.status
        for row in measured(executor("limited", limited), EAGER)
    }
    assert found["limited", "forward"] == found["limited", "backward"] == "oom"
    assert found["eager", "forward"] == found["eager", "backward"] == "ok"


def test_a_wrong_result_has_an_error_to_show() -> None:
    scaled = executor("scaled", lambda function: lambda x: function(x) * 1.1)
    not_finite = executor("nan", lambda function: lambda x: function(x) * math.nan)
    errors = {(row.executor, row.phase): row.err_vs_fp64 for row in measured(scaled, not_finite)}
    assert errors["scaled", "forward"] == pytest.approx(0.1, rel=0.05)
    assert errors["scaled", "backward"] == pytest.approx(0.1, rel=0.05)
    assert errors["nan", "forward"] == errors["nan", "backward"] == math.inf


def test_one_that_writes_into_its_inputs_spoils_nobody_elses() -> None:
    def spoil(function: Function) -> Function:
        def call(x: torch.Tensor) -> torch.Tensor:
            y = function(x) * 1.0
            x.data.fill_(7)
            return y  # type: ignore[no-any-return]

        return call

    spoiling = replace(executor("spoiling", spoil), writes_inputs=True)
    for row in measured(spoiling, EAGER):
        assert row.status == "ok"
        assert row.err_vs_fp64 == row.err_eager_vs_fp64


@needs_no_gpu
def test_ours_runs_a_workload_through_kernels_on_the_host_target() -> None:
    ours = next(executor for executor in EXECUTORS if executor.name == "ours")
    for row in measured(ours):
        assert row.status == "ok", row.error_msg
        assert row.err_vs_fp64 is not None
        assert row.err_eager_vs_fp64 is not None
        assert row.err_vs_fp64 <= 1.01 * row.err_eager_vs_fp64


@needs_no_gpu
@pytest.mark.parametrize("name", ["inductor", "torchcompile_cat"])
def test_peers_run_a_workload_on_the_host_target(name: str) -> None:
    (peer,) = [executor for executor in EXECUTORS if executor.name == name]
    for row in measured(peer):
        assert row.status == "ok", row.error_msg
        assert row.err_vs_fp64 is not None
        assert row.err_eager_vs_fp64 is not None
        assert row.err_vs_fp64 <= 1.5 * row.err_eager_vs_fp64
        assert row.executor_options == ("dynamic=False" if name == "inductor" else "")


@needs_no_gpu
def test_a_run_is_resumed_where_it_broke_off(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    call = ["--quick", "--suite", "kernels", "--work", "softmax,swiglu", "--exec", "eager"]
    call += ["--out", str(out)]
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
    assert len({row["run_id"] for row in found}) == 1
    assert list(tmp_path.iterdir()) == [out]


@needs_no_gpu
def test_a_run_that_has_all_rows_measures_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rows.jsonl"
    call = ["--quick", "--suite", "kernels", "--work", "softmax", "--exec", "eager"]
    assert main([*call, "--out", str(out)]) == 0
    written = out.read_text()
    assert main([*call, "--out", str(out), "--resume"]) == 0
    assert "has all rows that were asked for" in capsys.readouterr().err
    assert out.read_text() == written


@needs_no_gpu
def test_a_run_whose_budget_is_spent_leaves_rows_to_the_next(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    call = ["--quick", "--suite", "kernels", "--work", "softmax", "--exec", "eager"]
    call += ["--out", str(out)]
    assert main([*call, "--budget", "1"]) == OUT_OF_TIME
    assert not out.exists()
    assert main([*call, "--resume", "--budget=600"]) == 0
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["status"] for row in found] == ["ok", "ok"]
    assert {row["command"] for row in found} == {f"python -m benchmarks {' '.join(call)}"}


def test_a_run_that_is_resumed_has_failed_if_a_row_before_had(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    row = {"suite": "s", "workload": "w", "phase": "forward", "sizes": ""}
    row |= {"gpu_name": None, "run_id": "1", "status": "oom"}
    for executor, has_failed in (("eager", False), ("ours", True)):
        with out.open("a") as file:
            file.write(json.dumps(row | {"executor": executor}) + "\n")
        assert resume(out, CPU).has_failed is has_failed


_KILLER = """
import os, sys
from benchmarks.__main__ import main
from benchmarks.executors import EXECUTORS, Executor
import benchmarks.command as command
die = Executor("die", lambda device: lambda case, keywords: lambda *inputs: os.abort())
command.EXECUTORS = (EXECUTORS[0], die, EXECUTORS[0].__class__("last", EXECUTORS[0].load))
sys.exit(main(sys.argv[1:]))
"""


@needs_no_gpu
def test_a_killed_process_loses_its_row_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "rows.jsonl"
    call = ["--quick", "--suite", "kernels", "--work", "softmax", "--out", str(out)]
    assert fresh.run(_KILLER, *call).returncode == -signal.SIGABRT
    alike = [Executor(name, EAGER.load) for name in ("eager", "die", "last")]
    monkeypatch.setattr("benchmarks.command.EXECUTORS", alike)
    assert main([*call, "--resume"]) == 0
    found = [json.loads(line) for line in out.read_text().splitlines()]
    status = {(r["executor"], r["phase"]): r["status"] for r in found}
    assert len(found) == len(status) == 6
    assert {key for key, what in status.items() if what != "ok"} == {
        ("die", phase) for phase in ("forward", "backward")
    }
    assert {r["error_type"] for r in found if r["executor"] == "die"} == {"ProcessDied"}


@needs_no_gpu
def test_a_new_run_keeps_the_rows_of_the_last(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    out.write_text("old\n")
    call = ["--quick", "--suite", "kernels", "--work", "softmax", "--exec", "eager"]
    assert main([*call, "--out", str(out)]) == 0
    assert (tmp_path / "rows.previous.jsonl").read_text() == "old\n"


def test_rows_of_another_device_are_not_added_to(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    row = {
        "suite": "s",
        "workload": "w",
        "executor": "e",
        "phase": "forward",
        "sizes": "",
        "status": "ok",
    }
    out.write_text(json.dumps(row | {"gpu_name": "H200", "run_id": "1"}) + "\n")
    with pytest.raises(ValueError, match="has rows of H200, not the host target"):
        resume(out, CPU)


def test_a_note_stays_where_the_process_dies(tmp_path: Path) -> None:
    out, running = tmp_path / "rows.jsonl", Running("kernels", "softmax", "rows=3", "ours")
    with noting(out) as note:
        note(running)
        assert resume(out, CPU).culprit == running
    assert resume(out, CPU).culprit is None


def test_wrong_calls_are_answered_with_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--work", "sofmax"]) == 2
    assert "no workload 'sofmax': did you mean softmax?" in capsys.readouterr().err


@needs_no_gpu
def test_full_sizes_are_refused_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "add --quick" in capsys.readouterr().err


def test_the_list_needs_no_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--suite", "rope", "--work", "hf_llama2_7b"]) == 0
    assert "length=32768" in capsys.readouterr().out
