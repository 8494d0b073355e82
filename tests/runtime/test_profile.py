"""Profiles: one row per segment, bytes counted once, results unchanged."""

from __future__ import annotations

import pytest
import torch

from tests.frontend.fusions import example
from thunder_fuser.frontend import FusionCache, FusionDefinition
from thunder_fuser.options import Options
from thunder_fuser.program import Program


def two_segments(x: torch.Tensor) -> FusionDefinition:
    with FusionDefinition(cache=FusionCache(Program)) as fd:
        (a,) = example(fd, x)
        b = fd.ops.segment_set(fd.ops.exp(a))
        fd.add_output(fd.ops.mul(b, a))
    return fd


def test_each_segment_has_time_bytes_and_grid(device: torch.device) -> None:
    x = torch.randn(1, 96).to(device).expand(64, 96)
    fd = two_segments(x)
    (found,) = fd.execute([x], profile=True)
    torch.testing.assert_close(found, x.exp() * x)
    profile = fd.profile()
    first, second = profile.segments
    assert (first.kind, second.kind) == ("kernel", "kernel")
    assert first.bytes == 96 * 4 + 64 * 96 * 4  # the expanded rows of x count once
    assert second.bytes == first.bytes + 64 * 96 * 4
    assert first.seconds > 0
    assert second.gbps == pytest.approx(second.bytes / second.seconds / 1e9)
    assert first.blocks is not None
    assert first.threads == 128
    assert profile.kernels == 2
    assert profile.seconds > 0
    lines = str(profile).splitlines()
    assert lines[0].split()[:4] == ["region", "segment", "kind", "us"]
    assert [line.split()[1] for line in lines[1:]] == ["0", "1", "all"]


def test_what_torch_runs_is_timed_too(device: torch.device) -> None:
    x = torch.randn(3, 5).to(device)
    fd = two_segments(x)
    fd.execute([x], profile=True, options=Options(evaluator=True))
    assert [s.kind for s in fd.profile().segments] == ["torch", "torch"]
    assert all(s.blocks is None and s.seconds > 0 for s in fd.profile().segments)
    assert fd.profile().kernels == 0


def test_an_in_place_write_happens_once(device: torch.device) -> None:
    x = torch.zeros(3, 5, device=device)
    with FusionDefinition(cache=FusionCache(Program)) as fd:
        (a,) = example(fd, x)
        fd.add_output(fd.ops.add(a, 1.0), alias_input=a)
    fd.execute([x], profile=True)
    assert torch.equal(x, torch.ones_like(x))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_registers_and_spills_are_known_on_a_gpu() -> None:
    x = torch.randn(64, 96, device="cuda")
    fd = two_segments(x)
    fd.execute([x], profile=True)
    assert all(s.registers and s.spill_bytes == 0 for s in fd.profile().segments)


def test_a_table_is_charged_for_the_rows_that_are_gathered(device: torch.device) -> None:
    weight, index = torch.randn(500, 24).to(device), torch.randint(500, (7,)).to(device)
    with FusionDefinition(cache=FusionCache(Program)) as fd:
        w, i = example(fd, weight, index)
        fd.add_output(fd.ops.neg(fd.ops.index_select(w, i, 0)))
    fd.execute([weight, index], profile=True)
    (segment,) = fd.profile().segments
    assert segment.bytes == 2 * 7 * 24 * 4 + 7 * 8
