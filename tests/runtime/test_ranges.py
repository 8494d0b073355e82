"""Ranges of regions and segments, as profilers see them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import thunder
import torch
from torch.autograd import DeviceType

from tests.executor.jitted import jit
from thunder_fuser import DataType, FusionDefinition, fuser, options
from thunder_fuser.executor.explain import regions_of
from thunder_fuser.options import Options
from thunder_fuser.runtime.plan import Plan
from thunder_fuser.runtime.ranges import ranged, ranges_of


def two_segments(x: torch.Tensor) -> torch.Tensor:
    return x.softmax(0).t().softmax(0)


def names(profiler: torch.profiler.profile) -> list[str]:
    """Our ranges in the order in which they began on the host. On a GPU the profiler shows each a
    second time, around its kernels."""
    events = [event for event in profiler.events() if event.device_type == DeviceType.CPU]
    found = [event.name for event in sorted(events, key=lambda event: event.time_range.start)]
    return [name for name in found if name.startswith(("region ", "segment "))]


def plans(jfn: object) -> list[Plan]:
    (region,) = regions_of(jfn)  # type: ignore[arg-type]
    return [p for p in region.definitions[0].leaf.program.plans if isinstance(p, Plan)]


@pytest.mark.usefixtures("device")
def test_torchs_profiler_shows_regions_and_their_segments(device: torch.device) -> None:
    jfn = thunder.jit(two_segments, executors=[fuser], fuser_ranges="profiler")
    x = torch.randn(40, 300).to(device)
    jfn(x)
    with torch.profiler.profile() as profiler:
        jfn(x)
    count = len(plans(jfn)[-1].segmented.segments)
    assert count > 1
    assert names(profiler) == ["region TF0", *(f"segment {k}" for k in range(count))]


def test_equal_regions_have_ranges_of_their_own_names() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(torch.cumprod(torch.tanh(x) * 2, 0)) * 2

    jfn = jit(program, fuser_ranges="profiler")
    with torch.profiler.profile() as profiler:
        jfn(torch.randn(3, 5))
    assert names(profiler) == ["region TF0", "segment 0", "region TF1", "segment 0"]


def test_a_definition_has_a_range_too() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], contiguity=True, dtype=DataType.Float)
        fd.add_output(fd.ops.exp(x))
    with options(ranges="profiler", evaluator=True), torch.profiler.profile() as profiler:
        fd.execute([torch.randn(7)])
    assert names(profiler) == [f"region fusion_{fd.id}", "segment 0"]


def test_without_the_option_a_plan_is_untouched() -> None:
    jfn = jit(two_segments)
    with torch.profiler.profile() as profiler:
        jfn(torch.randn(40, 300))
    assert names(profiler) == []
    plan = plans(jfn)[-1]
    assert plan.run.__globals__["evaluate0"] is plan.names["evaluate0"]


def test_nvtx_ranges_nest_and_close_where_a_launch_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    @contextmanager
    def nvtx(name: str) -> Iterator[None]:
        seen.append(f"+{name}")
        try:
            yield
        finally:
            seen.append(f"-{name}")

    monkeypatch.setattr(torch.cuda.nvtx, "range", nvtx)
    jit(lambda x: torch.tanh(x) * 2, fuser_ranges="nvtx")(torch.randn(3))
    probe = ["+thunder_fuser", "-thunder_fuser"]
    inside = ["+region TF0", "+segment 0", "-segment 0", "-region TF0"]
    assert [name for name in seen if name not in probe] == inside

    def fails() -> None:
        raise RuntimeError("lost")

    found = ranges_of("nvtx")
    assert found is not None
    with pytest.raises(RuntimeError, match="lost"):
        ranged(found, "outer", fails)()
    assert seen[-2:] == ["+outer", "-outer"]


def test_torch_without_nvtx_warns_and_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise RuntimeError("NVTX functions not installed")

    monkeypatch.setattr(torch.cuda.nvtx, "range", missing)
    jfn, x = jit(lambda x: torch.tanh(x) * 2, fuser_ranges="nvtx"), torch.randn(3)
    with pytest.warns(RuntimeWarning, match="ranges=nvtx shows nothing: NVTX functions not"):
        found = jfn(x)
    torch.testing.assert_close(found, torch.tanh(x) * 2)


def test_options_that_are_only_watched_are_in_no_repro() -> None:
    assert Options().with_keywords(fuser_ranges="nvtx").ranges == "nvtx"
    jfn = jit(lambda x: torch.tanh(x) * 2, fuser_ranges="profiler")
    jfn(torch.randn(3))
    assert "ranges" not in fuser.repro(jfn)
