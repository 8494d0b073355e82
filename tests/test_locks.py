"""A forked child waits for no lock that another thread of its parent held."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import pytest
import torch

from tests.frontend.fusions import defined
from thunder_fuser import locks
from thunder_fuser.frontend import FusionCache, FusionDefinition
from thunder_fuser.ir import scalar
from thunder_fuser.program import Program
from thunder_fuser.runtime.recent import Recent

WAIT = 20  # seconds, after which a child that hangs is ended


def status_of_child(held: Any, work: Callable[[], object]) -> int:
    """How a child ends that does `work` and was forked while another thread held a lock."""
    taken, leave = Event(), Event()

    def hold() -> None:
        with held:
            taken.set()
            leave.wait()

    thread = Thread(target=hold)
    thread.start()
    taken.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads: the point
        child = os.fork()
    if child == 0:
        signal.alarm(WAIT)
        work()
        os._exit(0)
    try:
        return os.waitpid(child, 0)[1]
    finally:
        leave.set()
        thread.join()


@pytest.mark.parametrize("make", [locks.new_lock, locks.new_reentrant_lock])
def test_a_child_takes_a_lock_that_was_held(make: Callable[[], Any]) -> None:
    held = make()

    def work() -> None:
        with held:
            pass

    assert status_of_child(held, work) == 0


def test_a_child_defines_and_executes_whatever_was_held() -> None:
    cache = FusionCache(Program)

    def negation(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.neg(fd.define_tensor([-1], contiguity=True)))

    def doubling(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.mul(fd.define_tensor([-1], contiguity=True), 2.125))

    fd, x = defined(negation, cache), torch.ones(2)
    fd.execute([x])
    kept: Recent[str, int] = Recent(2)
    for held in (cache._lock, fd.leaf.program._lock, scalar._INTERNING, kept._lock):  # type: ignore[attr-defined]
        assert status_of_child(held, lambda: fd.execute([x])) == 0
        assert status_of_child(held, lambda: defined(doubling, cache)) == 0
        assert status_of_child(held, lambda: kept.keep("a", 1)) == 0
