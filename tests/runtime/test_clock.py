"""Clocks: what passes between start and stop, read when it is asked for."""

from __future__ import annotations

import time

import torch

from thunder_fuser.runtime.clock import clock_of


def test_a_clock_tells_what_passed_between_start_and_stop(device: torch.device) -> None:
    x = torch.randn(1 << 20, device=device)
    stop = clock_of(device)()
    y = x.exp()
    seconds = stop()
    time.sleep(0.2)  # does not count
    assert 0.0 < seconds() < 0.2
    assert y.shape == x.shape
