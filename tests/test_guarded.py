"""No kernel touches what lies beside its tensors: on the host that ends the process here."""

from __future__ import annotations

import signal
from itertools import islice
from subprocess import CompletedProcess

import pytest

from tests import fresh
from tests.guarded import PROGRAMS
from tests.test_random_fusions import BATCH, seeds

BATCHES = 2  # of random programs, 0.2 s each


def guarded(*names: str) -> CompletedProcess[str]:
    code = "import faulthandler, sys; from tests.guarded import main; "
    return fresh.run(code + "faulthandler.enable(); main(sys.argv[1:])", *names)


@pytest.mark.slow
def test_nothing_beside_a_tensor_is_touched() -> None:
    """Of rows and columns that are padded, odd, turned, walked and kept, forward and backward."""
    found = guarded()
    assert found.returncode == 0, found.stdout[-500:] + found.stderr[-2000:]
    assert all(name in found.stdout for name in PROGRAMS)


def test_random_programs_touch_nothing_beside_their_tensors() -> None:
    for batch in islice(seeds(BATCHES * BATCH), BATCHES):
        found = guarded("random", *map(str, batch))
        assert found.returncode == 0, found.stdout[-80:] + found.stderr[-2000:]


def test_a_byte_beside_one_ends_the_process() -> None:
    assert guarded("beside").returncode == -signal.SIGSEGV
