"""Kernels belong to the call in whose window they start."""

from __future__ import annotations

import pytest
import torch

from benchmarks.measure import by_window, time_pass


def test_work_is_given_to_its_call_and_flushes_to_none() -> None:
    windows = [(10.0, 20.0), (30.0, 40.0)]
    work = [(5.0, 9.0), (11.0, 2.0), (15.0, 3.0), (25.0, 9.0), (31.0, 4.0), (41.0, 9.0)]
    assert by_window(windows, work) == [[2.0, 3.0], [4.0]]


def test_a_call_whose_kernels_were_lost_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="no kernel in 1 of 2 calls"):
        by_window([(10.0, 20.0), (30.0, 40.0)], [(11.0, 2.0)])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_call_of_two_kernels_is_counted_and_timed() -> None:
    x = torch.zeros(2**26, device="cuda")  # 256 MiB: at least 50 us of any GPU's bandwidth
    timing = time_pass(lambda: lambda: x.add_(1).mul_(2), x.device)
    assert timing.kernels == 2
    assert timing.kernel.p50 is not None
    assert timing.wall.p50 is not None
    assert 50 < timing.kernel.p50 < timing.wall.p50
