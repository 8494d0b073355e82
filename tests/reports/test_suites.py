"""The tables of a whole run: sweeps, models, host, first calls, memory, structure."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from reports import report
from reports.read import read
from reports.rows import Run
from reports.table import Best, Table, amount
from reports.tables import compiling, host, memory, models, structure, sweeps
from reports.tables.speed import geometric_mean, speedup
from tests.reports.made_up import LENGTHS, MODELS, ROPES, Row, full_run, host_target_run
from tests.reports.recorded import write

SEED = 20


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return full_run(SEED)


@pytest.fixture(scope="module")
def whole(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> Run:
    return read([write(tmp_path_factory.mktemp("run") / "rows.jsonl", rows)])


@pytest.fixture(scope="module")
def on_host(tmp_path_factory: pytest.TempPathFactory) -> Run:
    rows = host_target_run(SEED)
    return read([write(tmp_path_factory.mktemp("host") / "rows.jsonl", rows)])


def cell(table: Table, column: str, *labels: str) -> str:
    (row,) = [row for row in table.rows if row[: len(labels)] == labels]
    return row[table.head.index(column)]


def row_of(rows: list[Row], **wanted: object) -> Row:
    (row,) = [row for row in rows if all(row[name] == value for name, value in wanted.items())]
    return row


def test_every_question_of_a_whole_run_has_an_answer(whole: Run) -> None:
    found = report.page(whole, "made").sections
    assert [section.name for section in found] == [question.name for question in report.QUESTIONS]


def test_no_row_is_dropped_in_silence(whole: Run, on_host: Run) -> None:
    """Every pass stands in a table of times, and every row that is not ok among the failures."""
    for run in (whole, on_host):
        page = {section.name: section for section in report.page(run, "made").sections}
        names = ("kernels", "models", *(["host"] if run.is_gpu else ["first-calls"]))
        tables = [table for name in names if name in page for table in page[name].tables]
        shown = {row[:2] for table in tables for row in table.rows}
        for table in page["sweeps"].tables:
            workload = table.caption.removeprefix("rope: ")
            shown |= {(f"{workload} {row[0]}", row[1]) for row in table.rows}
        passes = run.frame[["label", "phase"]].itertuples(index=False)
        assert {tuple(one) for one in passes} <= shown
        failures = page["outcome"].tables[0]
        assert sum(int(row[2]) for row in failures.rows) == (run.frame["status"] != "ok").sum()


def test_a_sweep_has_a_table_per_workload_shortest_first(rows: list[Row], whole: Run) -> None:
    found = sweeps.tables(whole)
    assert [table.caption for table in found] == [f"rope: {name}" for name in ROPES]
    assert {table.head[:2] for table in found} == {("sizes", "pass")}
    labels = [f"length={length}" for length in LENGTHS]
    for table in found:
        assert [row[:2] for row in table.rows] == [
            (label, phase) for phase in ("forward", "backward") for label in labels
        ]
    wanted = {"workload": ROPES[3], "seq_len": 8192, "phase": "backward", "executor": "nvfuser"}
    time = row_of(rows, **wanted)["kernel_us_p50"]
    assert cell(found[3], "nvfuser", "length=8192", "backward").startswith(f"{amount(time)} · ")


def test_the_fastest_of_a_line_stands_out(rows: list[Row], whole: Run) -> None:
    for table in sweeps.tables(whole):
        for line in table.rows:
            times = [float(text.partition(" ")[0].replace(",", "")) for text in line[2:]]
            best = [k for k, text in enumerate(line[2:]) if isinstance(text, Best)]
            assert len(best) == 1
            assert times[best[0]] == min(times)


def test_means_are_those_of_the_ratios(rows: list[Row], whole: Run) -> None:
    chosen = [row for row in rows if row["suite"] == "kernels" and row["kernel_us_p50"]]
    times = {
        name: {
            (row["workload"], row["phase"], row["sizes"]): row["kernel_us_p50"]
            for row in chosen
            if row["executor"] == name
        }
        for name in ("ours", "nvfuser")
    }
    common = times["ours"].keys() & times["nvfuser"].keys()
    product = math.prod(times["nvfuser"][key] / times["ours"][key] for key in common)
    ratios = speedup(whole.frame, "kernels", "nvfuser")
    assert len(ratios) == len(common) == len(times["ours"]) - 1  # it failed in one
    assert geometric_mean(ratios) == pytest.approx(product ** (1 / len(common)))


def test_a_step_of_a_model(rows: list[Row], whole: Run) -> None:
    (table,) = models.tables(whole)
    wanted: dict[str, Any] = {"workload": MODELS[1], "phase": "step", "executor": "ours"}
    row = row_of(rows, sizes="layers=8 batch=1 length=4096", **wanted)
    line = (f"{MODELS[1]} layers=8", "step", "ours")
    assert cell(table, "step ms", *line) == f"{row['wall_us_p50'] / 1e3:.2f}"
    assert cell(table, "host ms", *line) == f"{row['host_us_p50'] / 1e3:.2f}"
    assert cell(table, "peak GiB", *line) == f"{row['peak_alloc_mib'] / 1024:.2f}"
    assert cell(table, "tokens/s", *line) == f"{row['tokens_per_s']:,.0f}"
    idle = row["wall_us_p50"] - row["kernel_us_p50"]
    assert cell(table, "idle ms", *line) == f"{idle / 1e3:.2f}"


def test_the_parts_of_a_step_are_the_step(whole: Run) -> None:
    steps = whole.frame[(whole.frame["suite"] == "models") & (whole.frame["status"] == "ok")]
    parts = steps[["kernel_us_p50", "exposed_host_us", "gap_us"]]
    pd.testing.assert_series_equal(
        parts.sum(axis=1), steps["wall_us_p50"], check_names=False, rtol=1e-12
    )
    waits = steps["host_us_p50"] > steps["kernel_us_p50"]
    assert waits.any()
    assert not waits.all()
    assert (steps[waits]["exposed_host_us"] > 0).all()
    assert (steps[~waits]["exposed_host_us"] == 0).all()


def test_the_host_suite_comes_first(whole: Run) -> None:
    found = host.tables(whole)
    assert [table.caption for table in found] == ["host", "kernels", "rope", "models", "compile"]


def test_cold_and_warm_first_calls_and_their_stages(rows: list[Row], whole: Run) -> None:
    both, _, stages = compiling.tables(whole)
    row = row_of(rows, suite="compile", workload="layers_32", executor="ours")
    cold, warm = (amount(row[f"first_call_s_{name}"]) for name in ("cold", "warm"))
    assert cell(both, "ours", "layers_32", "forward") == f"{cold} · {warm}"
    line = ("layers_32", "forward")
    assert cell(stages, "NVRTC s", *line) == f"{row['nvrtc_s']:.3f}"
    assert cell(stages, "compiled", *line) == str(row["n_compiled"])


def test_memory_and_bytes(rows: list[Row], whole: Run) -> None:
    peak, saved = memory.tables(whole)
    (table,) = structure.tables(whole)
    wanted: dict[str, Any] = {"workload": "geglu", "phase": "backward", "executor": "ours"}
    row = row_of(rows, **wanted)
    assert cell(peak, "ours", "geglu", "backward") == f"{row['peak_alloc_mib']:,.0f}"
    assert cell(saved, "ours", "geglu", "backward") == f"{row['saved_for_backward_mib']:,.0f}"
    line = ("geglu", "backward")
    part = row["io_bytes_min"] / row["io_bytes_moved"]
    assert cell(table, "least / moved", *line) == f"{part:.0%}"
    assert cell(table, "shared KiB", *line) == "8.0"


def test_a_run_of_the_host_target_has_no_sections_about_gpus(on_host: Run) -> None:
    names = [section.name for section in report.page(on_host, "made").sections]
    absent = {"peers", "roofline", "host"}
    assert names == [one.name for one in report.QUESTIONS if one.name not in absent]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.01234, "0.012"),
        (0.123456, "0.123"),
        (9.876, "9.88"),
        (12.345, "12.3"),
        (99.96, "100"),
        (1234.5, "1,234"),
        (0.0, "0"),
        (float("nan"), "-"),
    ],
)
def test_amounts_have_three_digits(value: float, text: str) -> None:
    assert amount(value) == text
