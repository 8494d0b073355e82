"""Plots show the rows' figures, in colours that everybody can tell apart."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes

from reports import report
from reports.plots import compiling as compiling_plots
from reports.plots import executors, memory, roof, speed, steps, structure, sweep
from reports.plots.executors import look
from reports.plots.figure import INK, PAPER, WIDTH, Figure, Handles, draw, log_ticks
from reports.plots.lines import LINES, parts
from reports.read import read
from reports.rows import Run
from reports.tables.speed import speedup
from tests.reports.made_up import EXECUTORS, MODELS, ROPES, host_target_run, small_run
from tests.reports.recorded import run, write

SVG = "{http://www.w3.org/2000/svg}"
# Machado, Oliveira and Fernandes, 2009: how colours look, at full severity; linear RGB
SEEN_BY = {
    "everybody": "1 0 0  0 1 0  0 0 1",
    "protanopia": "0.1523 1.0526 -0.2049  0.1145 0.7863 0.0992  -0.0039 -0.0481 1.0520",
    "deuteranopia": "0.3673 0.8606 -0.2280  0.2801 0.6725 0.0474  -0.0118 0.0429 0.9689",
    "tritanopia": "1.2555 -0.0767 -0.1788  -0.0784 0.9308 0.1476  0.0047 0.6914 0.3039",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return read([write(tmp_path_factory.mktemp("run") / "rows.jsonl", small_run(8))])


def texts(figure: Figure) -> list[str]:
    root = ElementTree.fromstring(figure.svg)
    return ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    white = np.array([0.9505, 1.0, 1.089])
    found = np.cbrt(np.clip(np.array(to_xyz) @ rgb, 1e-9, None) / white)
    return np.array([116 * found[1] - 16, 500 * (found[0] - found[1]), 200 * (found[1] - found[2])])


@pytest.mark.parametrize("sight", SEEN_BY)
def test_executors_look_different_to_everybody(sight: str) -> None:
    """By 8 CIELAB units at least; 2.3 are just noticeable. Markers differ too."""
    matrix = np.array(SEEN_BY[sight].split(), dtype=float).reshape(3, 3)
    looks = [look(name) for name in (*EXECUTORS, "liger")]
    assert len({one.marker for one in looks}) == len(looks)
    for one, other in itertools.combinations(looks, 2):
        seen = [lab(np.clip(matrix @ linear(each.colour), 0, 1)) for each in (one, other)]
        assert np.linalg.norm(seen[0] - seen[1]) > 8, (one, other)


@pytest.mark.parametrize("page", ["#ffffff", "#161616"])
def test_colours_show_on_light_and_dark_pages(page: str) -> None:
    """2.1 : 1 is that of Okabe and Ito's orange on white; lines carry markers besides."""
    weights = np.array([0.2126, 0.7152, 0.0722])
    for name in (*EXECUTORS, "liger", "a stranger"):
        light, dark = sorted((linear(c) @ weights for c in (look(name).colour, page)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) > 2.0, name


def test_an_executor_looks_the_same_in_every_report() -> None:
    assert look("a stranger") == look("a stranger")
    assert look("ours").colour in executors.legend(["ours"])[0].get_color()


def test_figures_have_names_of_their_own_and_no_wrong_ink(whole: Run) -> None:
    figures = [figure for section in report.page(whole, "").sections for figure in section.figures]
    assert len({figure.name for figure in figures}) == len(figures) > 10
    for figure in figures:
        assert INK not in figure.svg
        assert PAPER not in figure.svg
        root = ElementTree.fromstring(figure.svg)
        assert float(root.attrib["width"].removesuffix("pt")) == pytest.approx(WIDTH * 72)
        assert root.attrib["aria-label"] == figure.alt
        ids = {element.attrib["id"] for element in root.iter() if "id" in element.attrib}
        referred = set(re.findall(r'(?:url\(#|href="#)([^")]+)', figure.svg))
        assert ids == referred
        assert all(one.startswith(f"{figure.name}-") for one in ids)


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (0.0013, 8.0, {"0.01", "0.1", "1"}),
        (3.0, 70.0, {"5", "10", "20", "50"}),
        (110.0, 480.0, {"200"}),
    ],
)
def test_a_logarithmic_axis_has_few_ticks_in_plain_digits(
    low: float, high: float, wanted: set[str]
) -> None:
    def paint(panels: Sequence[Axes]) -> Handles:
        panels[0].plot([1, 2], [low, high])
        panels[0].set_yscale("log")
        log_ticks(panels[0].yaxis)
        panels[0].set_xticks([])
        return ()

    found = set(texts(draw("name", "alt", 2.0, paint)))
    assert wanted <= found
    assert all(low / 10 <= float(text) <= high * 10 for text in found)
    assert len(found) <= 6


def test_equal_rows_give_equal_figures(whole: Run) -> None:
    assert steps.figures(whole)[:2] == steps.figures(whole)[:2]


def test_a_sweep_is_a_figure_per_workload_with_a_line_per_executor(whole: Run) -> None:
    figures = sweep.figures(whole)
    assert [figure.name for figure in figures] == [f"sweep-{name}" for name in ROPES[:2]]
    for figure, name in zip(figures, ROPES[:2], strict=True):
        found = texts(figure)
        assert {f"{name} forward", f"{name} backward"} <= set(found)
        assert {"1k", "2k", "4k", "8k", "16k", "32k", *EXECUTORS} <= set(found)


def test_the_roof_of_a_sweep_is_that_of_its_greatest_length(tmp_path: Path) -> None:
    rows = [row for row in small_run(8) if row["suite"] == "rope" and row["executor"] == "ours"]
    for row in rows:
        row["kernel_us_p20"] = row["kernel_us_p50"] = row["kernel_us_p80"] = (
            row["io_bytes_min"] / 1e3 / row["copy_gbps"] / (0.5 if row["seq_len"] == 32768 else 0.9)
        )
    forward, backward = roof.figures(read([write(tmp_path / "rows.jsonl", rows)]))
    bars = re.findall(
        rf"M ([\d.]+) [\d.]+ L ([\d.]+) [^\"]*\" [^>]*{look('ours').colour}", forward.svg
    )
    start, end = (float(x) for x in bars[0])
    dashed = re.search(
        r'M ([\d.]+) [^"]*" clip-path="[^"]*" style="[^"]*stroke-dasharray', forward.svg
    )
    assert dashed is not None
    assert (end - start) / (float(dashed[1]) - start) == pytest.approx(0.5, abs=0.01)
    assert set(ROPES[:2]) <= set(texts(backward))


def test_what_is_far_beyond_the_roof_stands_at_the_edge(tmp_path: Path) -> None:
    rows = [row for row in small_run(8) if row["suite"] == "kernels"]
    near = roof.figures(read([write(tmp_path / "near.jsonl", rows)]))
    view = next(row for row in rows if row["executor"] == "inductor" and row["kernel_us_p50"])
    for column in ("kernel_us_p20", "kernel_us_p50", "kernel_us_p80"):
        view[column] = view["io_bytes_min"] / 1e3 / view["copy_gbps"] / 64
    view["trial_us"] = [view["kernel_us_p50"]] * 3
    figures = roof.figures(read([write(tmp_path / "far.jsonl", rows)]))
    said = [text for figure in figures for text in texts(figure) if "a view" in text]
    assert said == ["% of the device copy (dashed); at 150: that or more, a view"]
    ticks = {int(t) for figure in figures for t in texts(figure) if t.strip().isdigit()}
    assert 100 < max(ticks) <= 150
    assert not any("a view" in text for figure in near for text in texts(figure))


def test_a_step_is_a_figure_per_model_that_says_its_milliseconds(whole: Run) -> None:
    figures = steps.figures(whole)
    assert len(figures) == 2 * 2  # layers, passes
    rows = whole.frame[(whole.frame["suite"] == "models") & (whole.frame["status"] == "ok")]
    first = rows[(rows["label"] == rows["label"].iloc[0]) & (rows["phase"] == "step")]
    said = {text.strip() for text in texts(figures[0])}
    assert {f"{us / 1e3:.1f}" for us in first["wall_us_p50"]} <= said
    assert {"kernels", "host, beyond them", "other gaps"} <= said


def test_memory_and_first_calls_have_a_line_per_pass(whole: Run) -> None:
    lines = {text for figure in memory.figures(whole) for text in texts(figure)}
    assert {*ROPES[:2], "rmsnorm", f"{MODELS[1]} layers=8"} <= lines
    pairs, stages = compiling_plots.figures(whole)
    assert {"layers_32 fwd", *EXECUTORS} <= set(texts(pairs))
    assert {"layers_32 fwd", "trace", "fuse", "codegen", "NVRTC"} <= set(texts(stages))


def test_every_pass_is_a_stroke_of_the_means(whole: Run) -> None:
    figures = {figure.name: figure for figure in speed.figures(whole)}
    assert list(figures) == ["speed-kernels", "speed-rope", "speed-models", "speed-host"]
    assert {*EXECUTORS} - {"ours"} <= set(texts(figures["speed-kernels"]))
    assert "nvfuser" not in texts(figures["speed-models"])  # it is not installed there
    for suite, peer in (("kernels", "nvfuser"), ("rope", "inductor")):
        strokes = re.findall(
            rf"<use [^>]*stroke: {look(peer).colour}[^>]*/>", figures[f"speed-{suite}"].svg
        )
        assert len(strokes) == len(speedup(whole.frame, suite, peer))


def test_a_pass_that_moves_more_than_the_least_has_a_bar(tmp_path: Path) -> None:
    rows = [row for row in small_run(8) if row["executor"] == "ours" and row["suite"] == "kernels"]
    for row in rows:
        row["io_bytes_moved"] = row["io_bytes_min"]
    assert not structure.figures(read([write(tmp_path / "rows.jsonl", rows)]))
    rows[3]["io_bytes_moved"] *= 2
    rows[3]["n_kernels"] = 7
    (figure,) = structure.figures(read([write(tmp_path / "rows.jsonl", rows)]))
    found = texts(figure)
    assert f"kernels: {rows[3]['workload']} bwd" in found
    assert "7" in found
    assert sum(text.startswith("kernels: ") for text in found) == 1


def test_runs_without_the_columns_have_no_such_figures(tmp_path: Path) -> None:
    old = read([write(tmp_path / "old", run())])
    assert not [*sweep.figures(old), *steps.figures(old), *compiling_plots.figures(old)]
    host = read([write(tmp_path / "host", host_target_run(1))])
    assert not [*roof.figures(host), *steps.figures(host), *memory.figures(host)]
    assert not speed.figures(host)


@pytest.mark.parametrize("count", [1, LINES - 1, LINES, LINES + 1, 3 * LINES + 5])
def test_too_many_lines_are_several_figures_with_all_of_them(count: int) -> None:
    labels = [f"w{k}" for k in range(count)]
    found = parts("title", labels)
    assert [label for part in found for label in part.labels] == labels
    assert max(len(part.labels) for part in found) <= LINES
    assert len({part.title for part in found}) == len(found)
