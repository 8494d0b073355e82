"""Tables of recorded rows, by their text; values are computed by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from reports.__main__ import main
from tests.reports.recorded import Row, host_run, of_ours, run, write

Capture = pytest.CaptureFixture[str]


def report(tmp_path: Path, capsys: Capture, rows: list[Row], *options: str) -> str:
    """The Markdown on the terminal, without the blanks that align its columns."""
    assert main([str(write(tmp_path / "rows.jsonl", rows)), *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    return "\n".join(" ".join(line.split()) for line in lines)


def test_the_head_says_how_to_measure_again(tmp_path: Path, capsys: Capture) -> None:
    text = report(tmp_path, capsys, run())
    assert text.startswith("# thunder_fuser on NVIDIA H200\n")
    assert "Measured by `python -m benchmarks`" in text
    assert f"This page was made by `python -m reports {tmp_path / 'rows.jsonl'}`" in text
    assert "| commit | c2de6e900000 |" in text
    assert "| device copy | 4,273 GB/s |" in text


def test_a_run_of_several_processes_is_one(tmp_path: Path, capsys: Capture) -> None:
    """Each measured when it could, and the roof of its own."""
    rows = [
        row | {"timestamp_utc": f"2026-11-20T0{k}:00:00+00:00", "copy_gbps": 4273.0 * (1 + k % 2)}
        for k, row in enumerate(run())
    ]
    text = report(tmp_path, capsys, rows)
    assert "| measured | 2026-11-20T00:00:00+00:00 to 2026-11-20T08:00:00+00:00 |" in text
    assert "| device copy | 4,273 to 8,546 GB/s |" in text
    assert "| softmax | forward | **66.7 · 47% · 1** | 162 · 39% · 1 |" in text


def test_kernels_stand_beside_each_other(tmp_path: Path, capsys: Capture) -> None:
    text = report(tmp_path, capsys, run())
    # 268,435,456 bytes in 66.657 us are 4,027 GB/s, 94 % of the copy's
    assert "| softmax | forward | **66.7 · 94% · 1** | 162 · 39% · 1 |" in text
    assert "| softmax | backward | 95.7 · 98% · 1 | **92.6 · 102% · 1** |" in text
    assert "| kernels | softmax | bfloat16 | rows=16384 columns=4096 | 268 | 403 |" in text
    assert "| nvfuser | skipped | 1 | softmax | nvFuser is not installed |" in text


def test_who_was_skipped_here_and_there_has_a_column(tmp_path: Path, capsys: Capture) -> None:
    rows = run()
    other = next(row for row in rows if (row["workload"], row["phase"]) == ("softmax", "backward"))
    text = report(tmp_path, capsys, [*rows, other | {"executor": "nvfuser"}])
    assert "| workload | pass | ours | inductor | nvfuser |" in text
    assert "| softmax | forward | **66.7 · 94% · 1** | 162 · 39% · 1 | skipped |" in text


def test_means_come_with_their_counts(tmp_path: Path, capsys: Capture) -> None:
    text = report(tmp_path, capsys, run())
    # (73.152/68.48 · 467.967/99.488 · 162.399/66.657 · 92.64/95.68) ** (1/4); one is slower
    line = (
        "| kernels | inductor | 1.86 | 4 | 1.61 | 2.13 | 1 | 0 | 0 | 0 | 0.97 | softmax backward |"
    )
    assert line in text
    assert "| kernels | nvfuser | - | 0 | - | - | 0 | 0 | 0 | 1 | - | - |" in text


def test_a_failure_is_counted_beside_the_mean(tmp_path: Path, capsys: Capture) -> None:
    rows = run()
    rows[of_ours(rows)] |= {"status": "error", "error_msg": "bad | kernel <T>"}
    text = report(tmp_path, capsys, rows)
    line = (
        "| kernels | inductor | 1.69 | 3 | 1.07 | 2.13 | 1 | 0 | 1 | 0 | 0.97 | softmax backward |"
    )
    assert line in text
    assert "| ours | error | 1 | softmax | bad \\| kernel &lt;T> |" in text


def test_errors_are_told_as_multiples_of_eagers(tmp_path: Path, capsys: Capture) -> None:
    # 1.7e-3 of eager's 2.5e-3
    assert "| softmax | forward | 1.7e-03 · 0.68 |" in report(tmp_path, capsys, run())


def test_host_rows_are_marked_and_have_no_speedups(tmp_path: Path, capsys: Capture) -> None:
    text = report(tmp_path, capsys, host_run())
    assert text.startswith("# thunder_fuser on host target on AMD EPYC\n")
    assert "> Host target: kernels compiled by g++ and run on a CPU." in text
    assert "## Wall time, us" in text
    for absent in ("Times faster", "Kernels", "% of", "device copy"):
        assert absent not in text


def test_a_size_that_varies_is_part_of_the_name(tmp_path: Path, capsys: Capture) -> None:
    rows = run()
    rows += [row | {"sizes": "rows=7 columns=4096"} for row in rows if row["workload"] == "softmax"]
    text = report(tmp_path, capsys, rows)
    assert "| softmax rows=16384 | forward |" in text
    assert "| softmax rows=7 | backward |" in text


def test_sizes_with_other_names_are_other_rows(tmp_path: Path, capsys: Capture) -> None:
    rows = [row for row in run() if row["workload"] == "softmax" and row["executor"] == "ours"]
    rows = [row | {"sizes": size} for row in rows for size in ("a=1 b=2", "a=1 c=2", "a=3 b=2")]
    text = report(tmp_path, capsys, rows)
    for sizes in ("a=1 b=2 bfloat16", "a=1 c=2 bfloat16", "a=3 b=2 bfloat16"):
        assert f"| softmax {sizes} | forward | 66.7 · 94% · 1 |" in text


def test_throttled_rows_stay_and_are_named(tmp_path: Path, capsys: Capture) -> None:
    rows = run()
    rows[of_ours(rows)] |= {"throttled": True, "sm_clock_mhz": 1155.0, "power_w": 699.6}
    text = report(tmp_path, capsys, rows)
    assert "> Rows measured while the GPU was throttled: 1." in text
    assert "| softmax | forward | ours | 66.7 | 1155 | 700 | - |" in text
    assert "| softmax | forward | **66.7 · 94% · 1** |" in text


def test_a_row_that_is_ok_without_a_time_is_named(tmp_path: Path, capsys: Capture) -> None:
    rows = run()
    rows[of_ours(rows)] |= {f"kernel_us_p{q}": None for q in (20, 50, 80)}
    text = report(tmp_path, capsys, rows)
    assert "| kernels | ours | 1 | softmax |" in text
    assert "ok, but without a time" in text


def test_rows_can_be_chosen_by_name(tmp_path: Path, capsys: Capture) -> None:
    text = report(tmp_path, capsys, run(), "--work", "softmax", "--exec", "ours, inductor")
    assert "rope" not in text.replace(str(tmp_path), "")
    assert "nvfuser" not in text
    path = str(tmp_path / "rows.jsonl")
    assert main([path, "--work", "softmx"]) == 2
    assert "has no workload 'softmx': did you mean softmax?" in capsys.readouterr().err
    assert main([path, "--suite", "x"]) == 2
    assert "has no suite 'x': there are kernels" in capsys.readouterr().err
