"""Tables of recorded rows, and files that are refused."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from benchmarks.rows import Environment
from benchmarks.rows import Row as MeasuredRow
from reports.__main__ import main
from reports.rows import COLUMNS
from tests.reports.recorded import Row, host_run, of_ours, run, write


def test_benchmarks_write_every_column_that_reports_read() -> None:
    written = {field.name for kind in (MeasuredRow, Environment) for field in fields(kind)}
    assert set(COLUMNS) <= written


def report(tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: list[Row]) -> str:
    assert main([str(write(tmp_path / "rows.jsonl", rows)), "--out", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    assert (tmp_path / "out" / "report.md").read_text() == text
    return text


def test_a_gpu_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = report(tmp_path, capsys, run())
    assert text.startswith("# NVIDIA H200\n\n`python -m benchmarks` at 2026-11-20")
    assert (
        "| softmax        | bfloat16 | rows=16384 columns=4096 | 268.44           | 402.65   |"
        in text
    )
    # 268,435,456 bytes in 66.657 us are 4,027 GB/s, 94 % of the copy's
    assert "| softmax        | forward  | 162.4 · 39% · 1 | 66.7 · 94% · 1 | skipped |" in text
    assert "| nvfuser  | skipped | softmax   | nvFuser is not installed |" in text
    # (73.152/68.48 · 467.967/99.488 · 162.399/66.657 · 92.64/95.68) ** (1/4), one of 4 slower
    assert (
        "| inductor | 1.86           | 4    | 1              | 0.97  | 0         | 0       |"
        in text
    )


def test_a_failure_is_counted_beside_the_mean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = run()
    rows[of_ours(rows)] |= {"status": "error", "error_msg": "bad | kernel"}
    text = report(tmp_path, capsys, rows)
    assert "Rows in which ours failed: 1." in text
    assert "| inductor | 1.69           | 3    |" in text
    assert "bad \\| kernel" in text


def test_host_rows_are_marked_and_have_no_speedups(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = report(tmp_path, capsys, host_run())
    assert text.startswith("# host target on AMD EPYC")
    assert "These times tell nothing about a GPU" in text
    assert "## Wall time, us" in text
    assert "Times faster" not in text
    assert "Kernels" not in text


def without(column: str) -> list[Row]:
    return [{name: value for name, value in row.items() if name != column} for row in run()]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "is empty"),
        (run() + host_run(), "mixes rows of several target: cuda and host"),
        (
            [*run()[:4], *(row | {"gpu_name": "NVIDIA H100"} for row in run()[4:])],
            "mixes rows of several gpu_name: NVIDIA H200 and NVIDIA H100",
        ),
        (run() + run()[:1], "holds a row twice: rope_llama2_7b forward inductor"),
        (without("io_bytes_min"), "lacks io_bytes_min"),
        (
            [row | {"kernel_ms_p50": 1.0} for row in without("kernel_us_p50")],
            "lacks kernel_us_p50 (it has kernel_ms_p50)",
        ),
        ([row | {"host_us_p50": "60 us"} for row in run()], "a column of numbers holds"),
        ([row | {"status": "fine"} for row in run()], "status 'fine' is none of error, ok"),
    ],
)
def test_bad_rows_are_one_clear_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: list[Row], message: str
) -> None:
    assert main([str(write(tmp_path / "rows.jsonl", rows))]) == 2
    assert message in capsys.readouterr().err


def test_files_that_are_missing_or_no_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "none.jsonl")]) == 2
    assert (
        "No such file or directory; `python -m benchmarks` writes rows" in capsys.readouterr().err
    )
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"workload": 1}\nworkload,exec\n')
    assert main([str(bad)]) == 2
    assert "bad.jsonl:2 is no JSON object" in capsys.readouterr().err
