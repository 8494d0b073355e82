"""Several GPUs measure one run: each row once, in one file, whatever happens to a lane."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import lanes
from benchmarks.__main__ import main
from benchmarks.executors import EXECUTORS, Executor
from benchmarks.keeper import Limits
from benchmarks.lanes import chosen_gpus, without
from benchmarks.pace import OUT_OF_TIME
from benchmarks.rows import IDENTITY, ROOT
from benchmarks.selection import select
from benchmarks.suites import SUITES
from tests.benchmarks.children import child, rows

needs_no_gpu = pytest.mark.skipif(
    torch.cuda.is_available(), reason="with a GPU the command runs there"
)
CALL = ["--quick", "--suite", "kernels,sweep", "--work", "softmax,swiglu"]

# What stands where `python -m benchmarks.kept` is started: one executor dies, one tells its GPU.
_CHILD = f"""
import os, sys, time
sys.path.insert(0, {str(ROOT)!r})
from benchmarks import command
from benchmarks.executors import EXECUTORS, Executor

def told(case, keywords):
    def call(*inputs):
        place = os.environ["CUDA_VISIBLE_DEVICES"], str(inputs[0].shape), case.function.__qualname__
        with open(os.environ["PLACES"], "a") as file:
            file.write(";".join(place) + chr(10))
        return case.function(*inputs)
    return call

def dies(case, keywords):
    return lambda *inputs: os.abort() if len(inputs) == 2 else case.function(*inputs)

command.EXECUTORS = (
    EXECUTORS[0], Executor("dies", lambda device: dies), Executor("last", lambda device: told)
)
sys.exit(command.main(sys.argv[3:], time.monotonic()))
"""


def name(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(row[key] for key in ("suite", "workload", "sizes", "executor", "phase"))


@needs_no_gpu
@pytest.mark.slow
def test_two_lanes_measure_each_row_once_and_a_death_costs_its_own_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child(tmp_path, monkeypatch, _CHILD)
    monkeypatch.setattr(lanes, "visible", lambda: ["7", "GPU-abc"])
    monkeypatch.setenv("PLACES", str(tmp_path / "places"))
    monkeypatch.setattr("benchmarks.command.EXECUTORS", _named("eager", "dies", "last"))
    out = tmp_path / "rows.jsonl"
    out.write_text('{"of": "an earlier run"}\n')
    call = [*CALL, "--gpus", "all", "--out", str(out)]
    assert main([*call, "--limit", "60"]) == 0
    found = rows(out)
    # softmax and swiglu among the kernels, three shapes of softmax in the sweep
    assert len(found) == len(set(map(name, found))) == 2 * 3 * (len(_cases()))
    assert [row["workload"] for row in found] == [w for w, _ in _cases() for _ in range(6)]
    failed = {name(row)[1] for row in found if row["status"] != "ok"}
    assert failed == {"swiglu"}  # the one of two inputs
    assert {row["error_type"] for row in found if row["status"] != "ok"} == {"ProcessDied"}
    assert {row["executor"] for row in found if row["status"] != "ok"} == {"dies"}
    assert len({row["run_id"] for row in found}) == 1
    assert {row["command"] for row in found} == {f"python -m benchmarks {' '.join(call)}"}
    assert (tmp_path / "rows.previous.jsonl").exists()
    _check_places(tmp_path / "places")

    half = [row for i, row in enumerate(found) if i % 2 == 0 or row["status"] != "ok"]
    out.write_text("".join(json.dumps(row) + "\n" for row in reversed(half)))
    assert main([*call, "--limit", "60", "--resume"]) == 0
    again = rows(out)
    assert list(map(name, again)) == list(map(name, found))
    assert {row["run_id"] for row in again} == {found[0]["run_id"]}
    assert [row for row in again if row in half] == half


def _named(*names: str) -> tuple[Executor, ...]:
    return tuple(Executor(each, EXECUTORS[0].load) for each in names)


def _cases() -> list[tuple[str, str]]:
    chosen = select(SUITES, CALL[2], CALL[4], {})
    return [(w.name, str(sizes)) for suite in chosen for w in suite.workloads for sizes in w.quick]


def _check_places(file: Path) -> None:
    """Both lanes measured, and no case was measured on two GPUs."""
    found = [line.split(";") for line in file.read_text().splitlines()]
    assert {gpu for gpu, _, _ in found} == {"7", "GPU-abc"}
    of_case: dict[str, set[str]] = {}
    for gpu, *which in found:
        of_case.setdefault(str(which), set()).add(gpu)
    assert all(len(gpus) == 1 for gpus in of_case.values())


def test_rows_are_in_the_file_of_the_run_when_the_budget_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    keys = [("s", "w", "e", "forward", str(number)) for number in range(4)]
    text = (
        "import json, sys, time\n"
        "out = sys.argv[sys.argv.index('--out') + 1]\n"
        "lane = int(out[-7])\n"
        f"row = dict(zip({IDENTITY}, {keys}[1 - lane]))\n"
        "with open(out, 'a') as file:\n"
        "    file.write(json.dumps({**row, 'status': 'ok'}) + chr(10) + '{\"half\": ')\n"
        "time.sleep(600)\n"
    )
    child(tmp_path, monkeypatch, text)
    out = tmp_path / "rows.jsonl"
    begun = time.monotonic()
    limits = Limits(60.0, 3.0, out, False)
    assert lanes.run([], ["0", "1"], keys, ("id", "call"), limits, begun) == OUT_OF_TIME
    assert time.monotonic() - begun < 30
    assert [row["sizes"] for row in rows(out)] == ["0", "1"]
    assert "2 rows are left; --resume goes on" in capfd.readouterr().err


def test_a_lane_that_dies_for_good_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    child(tmp_path, monkeypatch, "import os; os.abort()")
    limits = Limits(None, None, tmp_path / "rows.jsonl", False)
    keys = [("s", "w", "e", "forward", "")]
    assert lanes.run([], ["0"], keys, ("id", "call"), limits, time.monotonic()) == 1
    assert "a lane ended early: 1 rows are left" in capfd.readouterr().err


def test_gpus_are_chosen_by_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert chosen_gpus("all") == ["0", "1", "2"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,GPU-a,6")
    assert chosen_gpus("2,0") == ["6", "4"]
    for wrong in ("3", "0,0", "-1", "one", "0,"):
        with pytest.raises(ValueError, match="there are: 0 to 2, or all"):
            chosen_gpus(wrong)


@needs_no_gpu
def test_a_machine_without_gpus_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--gpus", "all"]) == 2
    assert "none here" in capsys.readouterr().err


def test_options_are_left_out_with_their_values() -> None:
    call = ["--out", "a", "--quick", "--gpus=0,1", "--work", "x", "--resume"]
    assert without(call, ("--out", "--gpus"), ("--resume",)) == ["--quick", "--work", "x"]
