"""What is a regression: planted ones are named, noise is not."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from reports.__main__ import main
from tests.reports.recorded import Row, host_run, of_ours, run, scaled, write

Capture = pytest.CaptureFixture[str]


def compared(tmp_path: Path, capsys: Capture, old: list[Row], new: list[Row]) -> tuple[int, str]:
    """The exit status, and what was printed."""
    paths = [write(tmp_path / name, rows) for name, rows in (("old", old), ("new", new))]
    status = main(["compare", *map(str, paths)])
    printed = capsys.readouterr()
    return status, printed.out + printed.err


def tampered(change: Row) -> list[Row]:
    rows = run()
    position = of_ours(rows)
    rows[position] = rows[position] | change
    return rows


@pytest.mark.parametrize("recorded", [run, host_run])
def test_a_planted_slowdown_of_a_tenth_is_caught(
    tmp_path: Path, capsys: Capture, recorded: Callable[[], list[Row]]
) -> None:
    new = recorded()
    new[of_ours(new)] = scaled(new[of_ours(new)], 1.10)
    status, text = compared(tmp_path, capsys, recorded(), new)
    assert status == 1
    assert "4 rows of ours compared, 1 regressed." in text
    assert "| softmax forward ours | slower  | +10.0% | 3.0%" in text


@pytest.mark.parametrize("seed", range(20))
def test_noise_of_two_percent_is_none(tmp_path: Path, capsys: Capture, seed: int) -> None:
    draw = random.Random(seed)
    new = [scaled(row, draw.uniform(0.98, 1.02)) for row in run()]
    status, text = compared(tmp_path, capsys, run(), new)
    assert status == 0
    assert "4 rows of ours compared, 0 regressed." in text


def test_a_noisy_row_needs_more_than_its_noise(tmp_path: Path, capsys: Capture) -> None:
    old = tampered({"kernel_us_p20": 62.0, "kernel_us_p80": 71.3})  # 7 % either side of 66.7
    new = run()
    new[of_ours(new)] = scaled(new[of_ours(new)], 1.15)
    assert compared(tmp_path, capsys, old, new)[0] == 0
    new[of_ours(new)] = scaled(new[of_ours(new)], 1.15)
    assert compared(tmp_path, capsys, old, new)[0] == 1


def test_one_bad_trial_of_three_is_no_verdict(tmp_path: Path, capsys: Capture) -> None:
    slow = {"kernel_us_p50": 73.0, "kernel_us_p20": 72.9, "kernel_us_p80": 73.1}
    one, two = (tampered(slow | {"trial_us": t}) for t in ([66, 66, 99], [66, 73, 99]))
    assert compared(tmp_path, capsys, run(), one)[0] == 0
    assert compared(tmp_path, capsys, run(), two)[0] == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"err_vs_fp64": 1e-2}, "wrong"),
        ({"err_vs_fp64": float("inf")}, "wrong"),
        ({"err_vs_fp64": None}, "wrong"),
        ({"status": "error", "error_msg": "launch failed"}, "launch failed"),
        ({"status": "oom", "error_msg": "out of memory"}, "failed"),
        ({"status": "skipped"}, "the new run does not have it"),
        ({"sizes": "rows=3"}, "missing"),
    ],
)
def test_wrong_failed_and_missing_rows_are_caught(
    tmp_path: Path, capsys: Capture, change: Row, said: str
) -> None:
    status, text = compared(tmp_path, capsys, run(), tampered(change))
    assert status == 1
    assert "| softmax forward ours |" in text
    assert said in text


def test_an_error_that_is_as_good_as_eagers_is_none(tmp_path: Path, capsys: Capture) -> None:
    assert compared(tmp_path, capsys, run(), tampered({"err_vs_fp64": 2.4e-3}))[0] == 0


def test_a_faster_row_asks_for_a_new_baseline(tmp_path: Path, capsys: Capture) -> None:
    new = run()
    new[of_ours(new)] = scaled(new[of_ours(new)], 0.9)
    status, text = compared(tmp_path, capsys, run(), new)
    assert status == 0
    assert "| softmax forward ours | faster  | -10.0% |" in text


def test_a_slower_peer_is_no_regression_of_ours(tmp_path: Path, capsys: Capture) -> None:
    new = [scaled(row, 1.2 if row["executor"] == "inductor" else 1.0) for row in run()]
    status, text = compared(tmp_path, capsys, run(), new)
    assert status == 0
    assert "The peers' median change is +20.0% in 4 rows." in text


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (host_run(), "rows of NVIDIA H200 and of host target on AMD EPYC are not comparable"),
        ([r | {"gpu_name": "NVIDIA H100"} for r in run()], "NVIDIA H200 and of NVIDIA H100"),
        ([r | {"sizes": "rows=3"} for r in run()], "no row in common"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(
    tmp_path: Path, capsys: Capture, new: list[Row], message: str
) -> None:
    status, text = compared(tmp_path, capsys, run(), new)
    assert status == 2
    assert message in text
