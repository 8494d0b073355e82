"""Calls of several executors take turns; one that fails leaves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from benchmarks.measure import HOST_CALLS, HOST_WARM_UP, TRIALS, Prepare, Timing, time_together

CPU = torch.device("cpu")


def test_calls_take_turns() -> None:
    order: list[str] = []

    def calling(name: str) -> Prepare:
        return lambda: lambda: order.append(name)

    found = time_together([calling("a"), calling("b")], CPU)
    assert order == (HOST_WARM_UP + TRIALS * HOST_CALLS) * ["a", "b"]
    for timing in found:
        assert isinstance(timing, Timing)
        assert timing.samples == TRIALS * HOST_CALLS
        assert len(timing.wall_trials) == TRIALS
        assert timing.kernel.p50 is timing.kernels is timing.host.p50 is None


def test_one_that_fails_midway_leaves_the_others_alone() -> None:
    calls = 0

    def failing() -> Callable[[], object]:
        nonlocal calls
        calls += 1
        if calls == HOST_WARM_UP + 3:
            raise ValueError("no more")
        return lambda: None

    failed, sound = time_together([failing, lambda: lambda: None], CPU)
    assert isinstance(failed, ValueError)
    assert isinstance(sound, Timing)
    assert sound.samples == TRIALS * HOST_CALLS
    assert calls == HOST_WARM_UP + 3


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_calls_of_one_and_two_kernels_are_counted_and_timed() -> None:
    x = torch.zeros(2**26, device="cuda")  # 256 MiB: at least 50 us of any GPU's bandwidth
    one, two = time_together(
        [lambda: lambda: x.add_(1), lambda: lambda: x.add_(1).mul_(2)], x.device
    )
    assert isinstance(one, Timing)
    assert isinstance(two, Timing)
    assert (one.kernels, two.kernels) == (1, 2)
    assert one.kernel.p50 is not None
    assert two.kernel.p50 is not None
    assert two.wall.p50 is not None
    assert 50 < one.kernel.p50 < two.kernel.p50 < two.wall.p50
