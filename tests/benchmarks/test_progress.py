"""A line per row, and a bar below them on a terminal."""

from __future__ import annotations

import io
import sys
from dataclasses import replace

import pytest

from benchmarks.progress import Bar, Lines, line, progress
from benchmarks.resume import Running
from benchmarks.rows import Row

OK = Row("kernels", "softmax", "ours", "forward", "bfloat16", "rows=3", "ok", wall_us_p50=12.34)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_shows_the_clock_that_judges() -> None:
    head = "kernels  softmax            ours             forward"
    assert line(OK).startswith(head)
    assert line(OK).endswith("      12.3 us wall")
    failed = Row("host", "rope", "liger", "inference", "", "", "skipped", error_msg="[none] here")
    assert line(failed).endswith("inference skipped: [none] here (said once)")


def test_rows_that_are_skipped_for_one_reason_are_told_once() -> None:
    stream = io.StringIO()
    shown = Lines(stream)
    absent = replace(OK, status="skipped", error_msg="no GPU", executor="liger")
    here = [absent, OK, replace(absent, workload="rope"), OK, replace(absent, executor="nvfuser")]
    for row in (*here, replace(absent, error_msg="no op"), replace(absent, status="error")):
        shown.row(row)
    told = [text.split()[2:5] for text in stream.getvalue().splitlines()]
    assert told == [
        ["liger", "forward", "skipped:"],
        ["ours", "forward", "12.3"],
        ["ours", "forward", "12.3"],
        ["nvfuser", "forward", "skipped:"],
        ["liger", "forward", "skipped:"],
        ["liger", "forward", "error:"],
    ]


def test_elsewhere_there_are_lines_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress(1) as shown:
        assert isinstance(shown, Lines)
        shown.running(Running("kernels", "softmax", "rows=3", "ours"))
        shown.row(OK)
    assert stream.getvalue() == line(OK) + "\n"


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with progress(2) as shown:
        assert isinstance(shown, Bar)
        shown.running(Running("kernels", "softmax", "rows=3", "ours"))
        shown.row(OK)
        shown.bar.refresh()
    text = stream.getvalue()
    assert line(OK) in text
    assert "1/2" in text
    assert "softmax rows=3 ours" in text
