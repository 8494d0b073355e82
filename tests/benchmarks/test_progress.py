"""A line per row, and a bar below them on a terminal."""

from __future__ import annotations

import io
import sys

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
    assert line(failed).endswith("inference skipped: [none] here")


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
