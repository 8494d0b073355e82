"""Processes end with all that they started, and with the one that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import process
from benchmarks.rows import ROOT

SECONDS = 20.0


def lives(number: int) -> bool:
    """Whether a process runs; one that nobody waited for does not."""
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def ends(number: int) -> bool:
    end = time.monotonic() + SECONDS
    while lives(number) and time.monotonic() < end:
        time.sleep(0.05)
    return not lives(number)


def number_in(path: Path) -> int:
    end = time.monotonic() + SECONDS
    while not (path.exists() and path.read_text()) and time.monotonic() < end:
        time.sleep(0.05)
    return int(path.read_text())


needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@needs_linux
@pytest.mark.parametrize("ends_first", [False, True])
def test_what_a_process_started_ends_with_it(tmp_path: Path, ends_first: bool) -> None:
    told = tmp_path / "number"
    script = f"sleep 300 & echo $! > {told}; {'exit 0' if ends_first else 'wait'}"
    child = process.start(["sh", "-c", script])
    grandchild = number_in(told)
    if ends_first:
        assert child.wait(SECONDS) == 0
    assert lives(grandchild)
    process.end(child)
    assert ends(grandchild)
    assert child.returncode == (0 if ends_first else -signal.SIGKILL)


@needs_linux
def test_a_child_that_asks_for_it_dies_with_its_parent(tmp_path: Path) -> None:
    told = tmp_path / "number"
    asks = (
        "import os, pathlib, time; from benchmarks import process; process.die_with_parent();"
        f"pathlib.Path({str(told)!r}).write_text(str(os.getpid())); time.sleep(300)"
    )
    starts = (
        "import sys, time; from benchmarks import process;"
        f"process.start([sys.executable, '-c', {asks!r}]); time.sleep(300)"
    )
    parent = subprocess.Popen([sys.executable, "-c", starts], cwd=ROOT)
    child = number_in(told)
    assert lives(child)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    assert ends(child)


def test_what_a_process_says_is_in_its_file(tmp_path: Path) -> None:
    with (tmp_path / "said").open("w+") as file:
        child = process.start(["sh", "-c", "echo out; echo err >&2"], output=file)
        assert child.wait(SECONDS) == 0
        file.seek(0)
        assert file.read() == "out\nerr\n"
