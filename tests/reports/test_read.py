"""Files become rows, or one clear message: never a traceback, never a silent drop."""

from __future__ import annotations

import csv
import json
import random
from dataclasses import fields
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.rows import Environment
from benchmarks.rows import Row as MeasuredRow
from reports.__main__ import main
from reports.columns import COLUMNS, ESSENTIAL
from reports.read import read
from reports.rows import Run
from reports.write import write_rows
from tests.reports.made_up import host_target_run, small_run
from tests.reports.recorded import Row, host_run, run, write

Capture = pytest.CaptureFixture[str]


def test_benchmarks_write_what_reports_read_and_nothing_else() -> None:
    written = {field.name for kind in (MeasuredRow, Environment) for field in fields(kind)}
    assert set(ESSENTIAL) <= written
    assert written <= set(COLUMNS)


def as_csv(path: Path, rows: list[Row]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)
    return path


def same(one: Run, other: Run) -> None:
    pd.testing.assert_frame_equal(one.frame, other.frame)


def test_csv_and_jsonl_are_the_same_rows(tmp_path: Path) -> None:
    rows = small_run(seed=11)
    same(
        read([write(tmp_path / "rows.jsonl", rows)]),
        read([as_csv(tmp_path / "other.csv", rows)]),
    )


def test_rows_written_beside_a_report_read_back_the_same(tmp_path: Path) -> None:
    found = read([write(tmp_path / "rows.jsonl", small_run(seed=5))])
    write_rows(found, tmp_path)
    same(found, read([tmp_path / "rows.csv"]))


def test_several_files_are_one_run_in_their_order(tmp_path: Path) -> None:
    rows = small_run(seed=2)
    whole = read([write(tmp_path / "rows.jsonl", rows)])
    parts = [write(tmp_path / "1.jsonl", rows[:40]), as_csv(tmp_path / "2.csv", rows[40:])]
    same(whole, read(parts))


def test_a_directory_is_the_rows_in_it_once(tmp_path: Path) -> None:
    rows = small_run(seed=3)
    write(tmp_path / "rows.jsonl", rows)
    as_csv(tmp_path / "rows.csv", rows)  # the same rows again
    (tmp_path / "report.md").write_text("# no rows")
    assert len(read([tmp_path]).frame) == len(rows)


def test_old_files_lack_the_columns_that_came_later(tmp_path: Path) -> None:
    later = {"suite", "seq_len", "throttled", "first_call_s_cold", "err_vs_fp64", "host_us_p50"}
    rows = [{name: value for name, value in row.items() if name not in later} for row in run()]
    frame = read([write(tmp_path / "rows.jsonl", rows)]).frame
    assert set(frame["suite"]) == {"kernels"}
    assert frame[["seq_len", "first_call_s_cold", "err_vs_fp64", "host_us_p50"]].isna().all().all()
    assert frame["kernel_us_p50"].notna().sum() == 8


def test_a_column_that_no_table_shows_is_said(tmp_path: Path) -> None:
    rows = [row | {"moon": "full"} for row in run()]
    notes = read([write(tmp_path / "rows.jsonl", rows)]).notes
    assert notes == ("rows.jsonl has columns that no table shows: moon",)


def without(column: str) -> list[Row]:
    return [{name: value for name, value in row.items() if name != column} for row in run()]


def first_with(**changed: object) -> list[Row]:
    rows = run()
    rows[0] |= changed
    return rows


def of_unit(factor: float) -> list[Row]:
    """The kernel times of a row, but not its trials; without trials above 1."""
    times = {f"kernel_us_p{q}": run()[0][f"kernel_us_p{q}"] * factor for q in (20, 50, 80)}
    return first_with(**times, **({"trial_us": None} if factor > 1 else {}))


BAD: list[tuple[list[Row], str]] = [
    ([], "is empty"),
    (run() + host_run(), "mixes rows of several target: cuda and host"),
    (
        [*run()[:4], *(row | {"gpu_name": "NVIDIA H100"} for row in run()[4:])],
        "mixes rows of several gpu_name: NVIDIA H200 and NVIDIA H100",
    ),
    (run() + run()[:1], "holds a row twice: rope_llama2_7b forward inductor"),
    (without("workload"), "lacks workload"),
    (without("gpu_name"), "lacks gpu_name"),
    (without("kernel_us_p50"), "lacks kernel_us_p50"),
    (first_with(target=None), "a row without target: rope_llama2_7b forward inductor"),
    ([row | {"target": None} for row in run()], "a row without target"),
    (first_with(gpu_name=None), "a row without gpu_name: rope_llama2_7b forward inductor"),
    (
        [row | {"kernel_ms_p50": 1.0} for row in without("kernel_us_p50")],
        "kernel_ms_p50 has another unit than kernel_us_p50",
    ),
    (first_with(peak_alloc_gib=1.0), "peak_alloc_gib has another unit than peak_alloc_mib"),
    (
        [row | {"work_load": "a"} for row in without("workload")],
        "there is no column work_load; did you mean workload?",
    ),
    (first_with(n_segmnts=2), "there is no column n_segmnts; did you mean n_segments?"),
    (
        first_with(host_us_p50="60 us"),
        "host_us_p50 of rope_llama2_7b forward inductor is no number",
    ),
    (first_with(host_us_p50=True), "is no number: True"),
    (first_with(throttled="maybe"), "throttled of rope_llama2_7b forward inductor is neither"),
    (
        first_with(trial_us="fast"),
        "trial_us of rope_llama2_7b forward inductor is no list of times",
    ),
    (first_with(trial_us=[1.0, -1.0]), "is no list of times"),
    (first_with(status="okay"), "status 'okay' is unknown: did you mean ok?"),
    (first_with(target="gpu"), "target 'gpu' is unknown: it is one of cuda, host"),
    (first_with(kernel_us_p20=99.0), "times out of order or unit: kernel_us_p20=99"),
    (first_with(kernel_us_p50=0.0, kernel_us_p20=0.0), "times out of order or unit"),
    (of_unit(0.01), "the median trial_us=73.152 and kernel_us_p50=0.73152 are of different units"),
    (first_with(trial_us=[0.073, 0.073, 0.074]), "trial_us=0.073 and kernel_us_p50=73.152"),
    ([row | {"suite": "models"} for row in run()], "and wall_us_p50="),
    (of_unit(1000.0), "are hardly both microseconds"),
]


@pytest.mark.parametrize(("rows", "message"), BAD)
def test_bad_rows_are_one_clear_message(
    tmp_path: Path, capsys: Capture, rows: list[Row], message: str
) -> None:
    path = tmp_path / "rows.jsonl"
    assert main([str(write(path, rows))]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert str(path) in said
    assert len(said.splitlines()) == 1


TEXTS = [
    ("rows.jsonl", '{"workload": 1}\nworkload,exec\n', "rows.jsonl:2 is no JSON object"),
    ("rows.jsonl", '{"workload": 1}\n[1]\n', "rows.jsonl:2 is no JSON object"),
    ("rows.json", "[{}]", "is neither JSONL nor CSV"),
    ("rows.csv", "workload\nrope\n", "is neither JSONL nor CSV"),
    ("rows.csv", "workload,phase\n", "has a header and no rows"),
    ("rows.csv", "a,b\n1,2\n1,2,3\n", "is neither JSONL nor CSV"),
    ("rows.csv", "\n \n", "is empty"),
]


@pytest.mark.parametrize(("name", "text", "message"), TEXTS)
def test_files_that_are_no_rows(
    tmp_path: Path, capsys: Capture, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    assert main([str(tmp_path / name)]) == 2
    assert message in capsys.readouterr().err


def test_bytes_that_are_no_text(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "rows.jsonl").write_bytes(random.Random(1).randbytes(200) + b"\xff")
    assert main([str(tmp_path / "rows.jsonl")]) == 2
    assert "is no text" in capsys.readouterr().err


def test_a_missing_file_names_its_neighbour(tmp_path: Path, capsys: Capture) -> None:
    write(tmp_path / "rows.previous.jsonl", run())
    assert main([str(tmp_path / "row.previous.jsonl")]) == 2
    said = capsys.readouterr().err
    assert "No such file or directory; did you mean rows.previous.jsonl?" in said
    assert main([str(tmp_path / "nowhere" / "rows")]) == 2
    assert "`python -m benchmarks` writes rows" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main([str(tmp_path / "empty")]) == 2
    assert "holds no file of rows (.jsonl or .csv)" in capsys.readouterr().err


def test_files_of_two_devices_are_named(tmp_path: Path, capsys: Capture) -> None:
    one = write(tmp_path / "one.jsonl", run())
    two = write(tmp_path / "two.jsonl", [row | {"gpu_name": "NVIDIA H100"} for row in run()])
    assert main([str(one), str(two)]) == 2
    said = capsys.readouterr().err
    assert f"NVIDIA H200 ({one}) and NVIDIA H100 ({two})" in said
    assert main([str(one), str(write(tmp_path / "three.jsonl", host_run()))]) == 2
    assert f"several target: cuda ({one}) and host" in capsys.readouterr().err


def test_a_row_that_is_in_two_files_is_named(tmp_path: Path, capsys: Capture) -> None:
    one, two = (write(tmp_path / name, run()) for name in ("one.jsonl", "two.jsonl"))
    assert main([str(one), str(two)]) == 2
    assert f"{one} and {two} holds a row twice" in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(6))
def test_rows_with_anything_missing_are_a_page_or_a_message(
    tmp_path: Path, capsys: Capture, seed: int
) -> None:
    draw = random.Random(seed)
    rows = draw.sample(small_run(seed), draw.choice((1, 5, 40)))
    for name in draw.sample(sorted(rows[0]), 5):
        for row in rows:
            if draw.random() < 0.7:
                row[name] = None
    path = write(tmp_path / "rows.jsonl", rows)
    for argv in ([], ["--baseline", str(path)]):
        status = main([str(path), "--out", str(tmp_path / "out"), *argv])
        said = capsys.readouterr()
        assert status in (0, 2)
        assert ("| rows " in said.out) == (status == 0)
        assert (str(path) in said.err) == (status == 2)


@pytest.mark.parametrize("seed", range(5))
def test_lines_damaged_at_random_never_raise(tmp_path: Path, capsys: Capture, seed: int) -> None:
    """Cut, doubled and overwritten characters: a report, or a message and status 2."""
    draw = random.Random(seed)
    text = "".join(json.dumps(row) + "\n" for row in host_target_run(seed)[:20])
    for attempt in range(12):
        at = draw.randrange(len(text))
        changed = text[:at] + draw.choice(("", "}", '"', ",", "1", "null", "\n")) + text[at + 1 :]
        path = tmp_path / f"{attempt}.jsonl"
        path.write_text(changed)
        assert main([str(path)]) in (0, 2)
        capsys.readouterr()
