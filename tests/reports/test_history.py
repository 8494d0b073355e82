"""Runs over time: ordered by when they were measured, of one device, each row's trend."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reports.__main__ import main
from tests.reports.recorded import Row, host_run, of_ours, run, scaled, write

Capture = pytest.CaptureFixture[str]


def at(day: int, rows: list[Row]) -> list[Row]:
    when = {"timestamp_utc": f"2026-11-{day}T06:00:00+00:00", "git_sha": f"{day}" * 20}
    return [row | when for row in rows]


def directory(place: Path, rows: list[Row]) -> str:
    place.mkdir()
    write(place / "rows.jsonl", rows)
    return str(place)


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    """Three, in a wrong order: the first of them, a failure of ours, and 20 % slower."""
    failed, slow = run(), run()
    failed[of_ours(failed)] |= {"status": "error", "error_msg": "bad", "throttled": True}
    slow[of_ours(slow)] = scaled(slow[of_ours(slow)], 1.2)
    days = ((22, slow), (20, run()), (21, failed))
    return [directory(tmp_path / f"2026-11-{day}", at(day, rows)) for day, rows in days]


def test_runs_stand_in_the_order_of_their_times(runs: list[str], capsys: Capture) -> None:
    assert main(["history", *runs]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    text = "\n".join(lines)
    assert "# 3 runs on NVIDIA H200" in text
    first = next(k for k, line in enumerate(lines) if line.startswith("| 2026-11-20 "))
    assert lines[first].endswith("| 202020202020 | 2.11.0+cu130 | 4,273 | 4 | 0 | 0 |")
    assert lines[first + 1].startswith("| 2026-11-21 | ")
    assert lines[first + 1].endswith("| 4 | 1 | 1 |")
    # (73.152/68.48 · 467.967/99.488 · 162.399/66.657 · 92.64/95.68) ** (1/4); without the third;
    # with the third over 1.2
    means = [line for line in lines if line.startswith("| 2026-11-2") and " · " in line]
    assert means == [
        "| 2026-11-20 | 1.86 · 4 |",
        "| 2026-11-21 | 1.69 · 3 |",
        "| 2026-11-22 | 1.77 · 4 |",
    ]
    assert "| workload | pass | 2026-11-20 | 2026-11-21 | 2026-11-22 | change |" in text
    assert "| softmax | forward | 66.7 | error | 80.0 | **+20.0%** |" in text
    assert "| softmax | backward | 95.7 | 95.7 | 95.7 | +0.0% |" in text


def test_a_history_writes_a_page_with_its_plots(
    runs: list[str], tmp_path: Path, capsys: Capture
) -> None:
    assert main(["history", *runs, "--out", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    html = (tmp_path / "out" / "history.html").read_text()
    assert html.count("<figure>") == 3  # means; forward; backward
    assert "kernels: times faster than each peer" in html
    assert "kernels forward: time of ours, % of its first" in html
    assert "softmax fwd" in html


def test_json_says_the_same_to_a_program(runs: list[str], capsys: Capture) -> None:
    assert main(["history", "--json", *runs]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found["runs"]] == ["2026-11-20", "2026-11-21", "2026-11-22"]
    (mean,) = found["means"]
    assert mean["peer"] == "inductor"
    assert mean["passes"] == [4, 3, 4]
    trend = next(t for t in found["trends"] if (t["label"], t["phase"]) == ("softmax", "forward"))
    assert trend["times"] == [66.657, None, pytest.approx(66.657 * 1.2)]
    assert trend["statuses"] == ["ok", "error", "ok"]
    assert trend["change"] == pytest.approx(0.2)


def test_one_run_has_a_history_without_plots(tmp_path: Path, capsys: Capture) -> None:
    one = directory(tmp_path / "one", run())
    assert main(["history", one, "--out", str(tmp_path / "out")]) == 0
    assert "<figure>" not in (tmp_path / "out" / "history.html").read_text()
    assert "| softmax        | forward  |  66.7 |        - |" in capsys.readouterr().out


def test_runs_of_a_name_are_numbered(tmp_path: Path, capsys: Capture) -> None:
    paths = [write(tmp_path / f"rows{text}.jsonl", run()) for text in (".1", ".2")]
    assert main(["history", *map(str, paths)]) == 0
    assert "| 1: rows | 2: rows |" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ([row | {"gpu_name": "NVIDIA H100"} for row in run()], "and NVIDIA H100"),
        (host_run(), "and host target on AMD EPYC"),
    ],
)
def test_runs_of_two_devices_have_no_history(
    tmp_path: Path, capsys: Capture, other: list[Row], message: str
) -> None:
    places = [directory(tmp_path / "one", run()), directory(tmp_path / "two", other)]
    assert main(["history", *places]) == 2
    said = capsys.readouterr().err
    assert "a history is of one device, not of " in said
    assert f"NVIDIA H200 ({places[0]})" in said
    assert message in said
