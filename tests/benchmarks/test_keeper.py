"""A run goes on past what hangs and what dies, and ends in time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

from benchmarks import keeper, note
from benchmarks.__main__ import main
from benchmarks.keeper import Limits, limits
from benchmarks.note import Running
from benchmarks.pace import FIRST_SECONDS, LOST, OUT_OF_TIME, Pace
from benchmarks.rows import ROOT
from tests.benchmarks.children import child, rows

needs_no_gpu = pytest.mark.skipif(
    torch.cuda.is_available(), reason="with a GPU the command runs there"
)
CALL = ["--quick", "--suite", "kernels", "--work", "softmax"]

# What stands where `python -m benchmarks.kept` is started: executors that hang and die.
_CHILD = f"""
import os, sys, time
sys.path.insert(0, {str(ROOT)!r})
from benchmarks import command
from benchmarks.executors import EXECUTORS, Executor

def calls(name, act):
    def compiled(case, keywords):
        count = iter(range(1000))
        return lambda *inputs: act(next(count)) or case.function(*inputs)
    return Executor(name, lambda device: compiled)

command.EXECUTORS = (
    EXECUTORS[0],
    calls("hangs", lambda number: time.sleep(600)),
    calls("dies_in_turns", lambda number: number > 9 and os.abort()),
    calls("last", lambda number: None),
)
sys.exit(command.main(sys.argv[3:], time.monotonic()))
"""


@needs_no_gpu
@pytest.mark.slow
def test_what_hangs_and_what_dies_loses_its_own_rows_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child(tmp_path, monkeypatch, _CHILD)
    out = tmp_path / "rows.jsonl"
    out.write_text('{"of": "an earlier run"}\n')
    assert main([*CALL, "--out", str(out), "--limit", "25"]) == 0
    found = rows(out)
    status = {(row["executor"], row["phase"]): row["status"] for row in found}
    assert len(found) == len(status) == 8
    for phase in ("forward", "backward"):
        assert status["eager", phase] == status["last", phase] == "ok"
        assert status["hangs", phase] == "timeout"
    assert status["dies_in_turns", "forward"] == "error"
    messages = {row["executor"]: row["error_msg"] for row in found}
    assert "stopped after 25 s" in messages["hangs"]
    assert len({row["run_id"] for row in found}) == 1
    assert {row["command"] for row in found} == {
        f"python -m benchmarks {' '.join(CALL)} --out {out}"
    }
    assert (tmp_path / "rows.previous.jsonl").exists()
    assert not note.note_of(out).exists()


def test_processes_that_die_at_once_are_not_started_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    starts = tmp_path / "starts"
    child(tmp_path, monkeypatch, f"import os; open({str(starts)!r}, 'a').write('x'); os.abort()")
    assert main([*CALL, "--out", str(tmp_path / "rows.jsonl"), "--limit", "60"]) == 1
    assert starts.read_text() == "xx"
    assert "2 processes died at once" in capsys.readouterr().err


def test_a_lost_gpu_is_gone_on_from_with_the_rows_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "rows.jsonl"
    text = (
        f"import sys; out = {str(out)!r}; again = '--resume' in sys.argv\n"
        f"open(out, 'a').write('row\\n'); sys.exit(0 if again else {LOST})"
    )
    child(tmp_path, monkeypatch, text)
    assert main([*CALL, "--out", str(out), "--limit", "60"]) == 0
    assert out.read_text() == "row\nrow\n"


def test_the_budget_ends_a_step_without_blame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "rows.jsonl"
    text = f"open({str(note.note_of(out))!r}, 'w').write('{{}}'); import time; time.sleep(600)"
    child(tmp_path, monkeypatch, text)
    begun = time.monotonic()
    status = keeper.keep([*CALL, "--out", str(out)], Limits(60.0, 1.0, out, False), begun)
    assert status == OUT_OF_TIME
    assert time.monotonic() - begun < 30
    assert not note.note_of(out).exists()


def test_a_wrong_call_is_answered_by_the_process_that_measures(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rows.jsonl"
    assert main(["--work", "sofmax", "--limit", "60", "--out", str(out)]) == 2
    assert "did you mean softmax?" in capfd.readouterr().err
    assert limits(["--limit", "soon"]).step is None


def test_a_note_says_that_what_ran_was_stopped(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    running = Running("kernels", "softmax", "rows=3", "ours")
    with note.noting(out) as tell:
        tell(running)
        note.stamp(out, 150.0)
        assert note.found(out) == Running("kernels", "softmax", "rows=3", "ours", 150.0)
    assert note.found(out) is None


def test_a_workload_starts_where_one_as_long_as_the_longest_would_end_in_time() -> None:
    now = 0.0
    pace = Pace(budget=200.0, clock=lambda: now)
    for took in (30.0, 20.0):
        assert pace.allows("kernels")
        now += took
        pace.ended("kernels")
    now = 200 - FIRST_SECONDS - 1
    assert pace.allows("rope")
    now = 200 - 1.2 * 30 - 1
    assert pace.allows("kernels")
    now += 2
    assert not pace.is_over
    assert not pace.allows("kernels")
    assert pace.is_over


def test_a_budget_counts_from_the_start_of_the_process() -> None:
    assert not Pace(FIRST_SECONDS + 5, begun=time.monotonic() - 10).allows("kernels")
    assert Pace(FIRST_SECONDS + 15, begun=time.monotonic() - 10).allows("kernels")
    assert Pace().allows("kernels")
