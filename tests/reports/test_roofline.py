"""Whether a pass is far from the roof because it is small."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reports.plots import roofline as plots
from reports.plots.executors import look
from reports.read import read
from reports.rows import Run
from reports.tables import roofline
from reports.tables.roofline import LAUNCH_US
from tests.reports.made_up import host_target_run, small_run
from tests.reports.recorded import Row, write


def made(tmp_path: Path, rows: list[Row]) -> Run:
    return read([write(tmp_path / "rows.jsonl", rows)])


def kernel_rows() -> list[Row]:
    """Of one suite; every pass takes a launch and what the roof asks for."""
    found = [r for r in small_run(5) if r["suite"] == "kernels" and r["status"] == "ok"]
    for row in found:
        us = LAUNCH_US + row["io_bytes_min"] / 1e3 / row["copy_gbps"]
        row |= {f"kernel_us_p{q}": us for q in (20, 50, 80)} | {"trial_us": 3 * [us]}
    return found


def test_a_small_pass_is_as_near_as_its_size_allows(tmp_path: Path) -> None:
    rows = kernel_rows()
    for row in rows:
        row["io_bytes_min"] = 1_000_000  # 0.2 us of the roof
        us = LAUNCH_US + 1_000 / row["copy_gbps"]
        row |= {f"kernel_us_p{q}": us for q in (20, 50, 80)} | {"trial_us": 3 * [us]}
    (table,) = roofline.tables(made(tmp_path, rows))
    assert {line[2] for line in table.rows} == {"100%"}
    assert {line[3] for line in table.rows} == {"10%"}


def test_the_farthest_pass_of_ours_comes_first_beside_the_best_peer(tmp_path: Path) -> None:
    rows = kernel_rows()
    slow = next(r for r in rows if r["executor"] == "ours" and r["phase"] == "backward")
    for row in rows:
        if (row["workload"], row["phase"]) == (slow["workload"], slow["phase"]):
            factor = {"ours": 2.0, "nvfuser": 1.25}.get(row["executor"], 1.5)
            row |= {f"kernel_us_p{q}": row["kernel_us_p50"] * factor for q in (20, 50, 80)}
            row["trial_us"] = 3 * [row["kernel_us_p50"]]
    (table,) = roofline.tables(made(tmp_path, rows))
    first = table.rows[0]
    assert first[:3] == (slow["workload"], "backward", "50%")
    assert first[7] == "nvfuser"
    assert len(table.rows) == len({(r["workload"], r["phase"]) for r in rows})


def test_each_pass_of_each_executor_is_a_point_and_the_roof_a_line(tmp_path: Path) -> None:
    rows = kernel_rows()
    (figure,) = plots.figures(made(tmp_path, rows))
    for executor in ("ours", "nvfuser"):
        points = re.findall(rf"<use [^>]*fill: {look(executor).colour}[^>]*/>", figure.svg)
        count = sum(row["executor"] == executor for row in rows)
        assert len(points) == count + 1  # the legend's
    assert len(re.findall("stroke-dasharray", figure.svg)) >= 2 * 2


def test_without_peers_there_is_none_beside(tmp_path: Path) -> None:
    rows = [row for row in kernel_rows() if row["executor"] == "ours"]
    (table,) = roofline.tables(made(tmp_path, rows))
    assert {line[-2:] for line in table.rows} == {("-", "-")}


@pytest.mark.parametrize("rows", [host_target_run(1), []])
def test_without_a_roof_there_is_neither(tmp_path: Path, rows: list[Row]) -> None:
    unknown = {"io_bytes_min": None}
    run = made(tmp_path, rows or [row | unknown for row in kernel_rows()])
    assert roofline.tables(run) == plots.figures(run) == ()
