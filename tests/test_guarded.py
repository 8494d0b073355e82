"""No kernel touches what lies beside its tensors: on the host that ends the process here."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.guarded import PROGRAMS


def guarded(*names: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.guarded", *names]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_nothing_beside_a_tensor_is_touched() -> None:
    """Of rows and columns that are padded, odd, turned, walked and kept, forward and backward."""
    found = guarded()
    assert found.returncode == 0, found.stdout[-500:] + found.stderr[-2000:]
    assert all(name in found.stdout for name in PROGRAMS)


def test_a_byte_beside_one_ends_the_process() -> None:
    assert guarded("beside").returncode == -signal.SIGSEGV
