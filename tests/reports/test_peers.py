"""Rows of the older harness: read as what they are, with what they lack."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from reports.__main__ import main
from reports.read import read
from reports.report import page

Capture = pytest.CaptureFixture[str]
REPORTS = Path(__file__).parents[2] / "reports"
PLACE = {
    "gpu_name": "NVIDIA H200",
    "copy_gbps": 4000.0,
    "command": "peers/bench.py --exec compile,ours",
    "dtype": "bfloat16",
    "sizes": {"rope_small": "batch=2 length=64"},
}
LINES = (
    {"work": "rope_small", "exec": "compile", "compile_s": 3.0, "fwd_us": 8.0, "fwd_k": 3}
    | {"fwd_sol": 0.5, "err": 1e-3, "bwd_us": 10.0, "bwd_k": 2, "bwd_sol": 0.25, "host_us": 80.0},
    {"work": "norm-33-70", "exec": "ours", "fwd_us": 4.0, "fwd_k": 1, "fwd_sol": 0.75}
    | {"host_nograd_us": 40.0, "fail": "RuntimeError: no backward"},
)


def kept() -> list[Path]:
    """Of the reports whose rows have the same columns the one of fewest."""
    shortest: dict[tuple[str, ...], tuple[int, Path]] = {}
    for place in sorted(path.parent for path in REPORTS.glob("*/report.md")):
        rows = sorted(place.glob("*.csv"))
        columns = tuple(path.open().readline() for path in rows)
        found = sum(path.stat().st_size for path in rows), place
        shortest[columns] = min(shortest.get(columns, found), found)
    return [place for _, place in shortest.values()]


def written(place: Path) -> Path:
    path = place / "peers.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for line in LINES for name in line)))
        writer.writeheader()
        writer.writerows(LINES)
    path.with_suffix(".json").write_text(json.dumps(PLACE))
    return path


def test_a_line_is_a_row_per_pass(tmp_path: Path) -> None:
    run = read([written(tmp_path)])
    columns = ["suite", "workload", "phase", "sizes", "executor", "status", "kernel_us_p50"]
    found = [tuple(row) for row in run.frame[columns].fillna(0.0).itertuples(index=False)]
    assert found == [
        ("peers", "rope_small", "forward", "batch=2 length=64", "inductor", "ok", 8.0),
        ("peers", "rope_small", "backward", "batch=2 length=64", "inductor", "ok", 10.0),
        ("peers_host", "rope_small", "forward", "batch=2 length=64", "inductor", "ok", 0.0),
        ("peers", "norm", "forward", "rows=33 columns=70", "ours", "ok", 4.0),
        ("peers", "norm", "backward", "rows=33 columns=70", "ours", "error", 0.0),
        ("peers_host", "norm", "inference", "rows=33 columns=70", "ours", "ok", 0.0),
    ]
    # half of 4,000 GB/s for 8 us, a quarter for 10 us
    assert list(run.frame["io_bytes_min"][:2]) == pytest.approx([16e6, 10e6])
    assert list(run.frame["part_of_copy"][:2]) == pytest.approx([0.5, 0.25])
    assert run.frame["error_msg"][4] == "RuntimeError: no backward"
    assert run.frame["err_vs_eager"][0] == 1e-3


def test_a_report_says_whose_rows_they_are_and_what_they_lack(
    tmp_path: Path, capsys: Capture
) -> None:
    assert main([str(written(tmp_path))]) == 0
    text = capsys.readouterr().out
    assert "> The rows were written by another harness, peers/bench.py" in text
    assert "> No quantiles were recorded: nothing is known of the noise." in text
    assert "distance from eager" in text
    assert "against fp64 ·" not in text


def test_rows_without_their_place_are_refused(tmp_path: Path, capsys: Capture) -> None:
    path = written(tmp_path)
    place = path.with_suffix(".json")
    place.write_text(json.dumps({"gpu_name": "NVIDIA H200"}))
    assert main([str(path)]) == 2
    assert f"{place} lacks copy_gbps, command, dtype" in capsys.readouterr().err
    place.unlink()
    assert main([str(path)]) == 2
    assert "do not say where they were measured" in capsys.readouterr().err


@pytest.mark.parametrize("place", kept(), ids=lambda path: path.name)
def test_reports_that_were_kept_can_be_made_again(place: Path) -> None:
    run = read([place])
    assert page(run, "again").title in (place / "report.md").read_text()
