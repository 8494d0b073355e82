"""Processes that end with all that they started, and with the one that started them."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1  # of Linux's prctl


def start(
    command: Sequence[str],
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    output: IO[str] | None = None,
) -> subprocess.Popen[str]:
    """A process that leads those that it starts. What it says goes to the file `output`; a pipe
    would stay open for as long as one of them lives."""
    return subprocess.Popen(
        command,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=None if output is None else subprocess.STDOUT,
        start_new_session=True,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> None:
    """At once, and all that it started, also where it has ended by itself."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def die_with_parent() -> None:
    """Have this process killed when the one that started it ends: it leads a session of its own,
    which nothing else would end. Linux can; elsewhere nothing happens."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
