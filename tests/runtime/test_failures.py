"""Planted failures: one clear error, or torch where fallback=True asks for it."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import pytest
import torch

from tests import fresh, planted
from tests.executor.jitted import jit
from tests.frontend.fusions import example
from thunder_fuser import pipeline, tuning
from thunder_fuser.frontend import FusionCache, FusionDefinition
from thunder_fuser.kernel.templates import AnyKernel, Draft
from thunder_fuser.options import Options
from thunder_fuser.program import Program
from thunder_fuser.runtime import host_compiler, nvrtc
from thunder_fuser.runtime.errors import (
    CaptureError,
    CompileError,
    FuserError,
    GenerateError,
    LaunchError,
)
from thunder_fuser.target import cuda

KERNELS = {"fuser_evaluator": False, "fuser_cache": "off"}


@pytest.fixture(autouse=True)
def nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where refused kernels and repros go


def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.sin(x) * y
    return torch.exp(z)


LINE = f"test_failures.py:{program.__code__.co_firstlineno + 2}"  # of the exp


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(3, 5), torch.randn(3, 5)


def broken(*args: object) -> object:
    raise KeyError("i7")


def test_a_compiler_error_names_region_segment_op_line_and_repro(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planted.plant(monkeypatch, *planted.UNKNOWN)
    with pytest.raises(CompileError) as raised:
        jit(program, **KERNELS)(*inputs())
    text = str(raised.value)
    assert text.startswith("region TF0, segment 0 of 1: ")
    assert "refused the kernel" in text
    assert "'nope' is not a member of 'tf'" in text
    assert "T4: f32[i3, i5] = exp(T3)  at " in text
    assert f"{LINE}: return torch.exp(z)" in text
    assert text.endswith(f"run it alone: python {raised.value.repro}")
    assert "tf::nope(" in raised.value.path.read_text()
    assert "nope" in raised.value.log


def test_the_repro_repeats_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    planted.plant(monkeypatch, *planted.UNKNOWN)
    x = torch.randn(8, 4)[:, 1:]
    with pytest.raises(CompileError) as raised:
        jit(program, fuser_strict=True, **KERNELS)(x, torch.randn(8, 3))
    repro = raised.value.repro
    assert repro is not None
    assert oct(repro.parent.stat().st_mode)[-3:] == "700"
    script = repro.read_text()
    assert "as_strided((8, 3), (4, 1), 1)" in script
    assert "strict=True" in script
    fresh.script(repro)


def test_an_nvrtc_error_names_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    planted.plant(monkeypatch, *planted.UNKNOWN)
    monkeypatch.setattr(pipeline, "target_for", lambda device: cuda("sm_90a", 132))
    with pytest.raises(CompileError, match=r'namespace "tf" has no member "nope"') as raised:
        jit(program, **KERNELS)(*inputs())
    text = str(raised.value)
    assert text.startswith(f"region TF0, segment 0 of 1: {nvrtc.identity()}")
    assert "= exp(T3)  at " in text
    assert LINE in text


def test_a_generator_error_is_wrapped_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Draft, "lower", broken)
    message = (
        r"region TF0, segment 0 of 1: no kernel could be generated: KeyError: 'i7' "
        rf"\(test_failures.py:\d+, in broken\)\n  T4: f32\[i3, i5\] = exp\(T3\)  at .*{LINE}"
    )
    with pytest.raises(GenerateError, match=message) as raised:
        jit(program, **KERNELS)(*inputs())
    assert isinstance(raised.value.__cause__, KeyError)


def test_an_error_of_the_whole_region_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "cut", broken)
    with pytest.raises(GenerateError, match=r"region TF0: no kernel could be .*\nrun it alone"):
        jit(program, **KERNELS)(*inputs())


def test_a_launch_that_fails_names_the_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    planted.plant(monkeypatch, *planted.STUCK)
    message = (
        r"region TF0, segment 0 of 1: kernel kernel on the host: some threads wait .*\n"
        rf"  T4: f32\[i3, i5\] = exp\(T3\)  at .*{LINE}.*\nrun it alone: python /"
    )
    with pytest.raises(LaunchError, match=message):
        jit(program, **KERNELS)(*inputs())


def test_fallback_runs_torch_and_warns_once_per_region(monkeypatch: pytest.MonkeyPatch) -> None:
    planted.plant(monkeypatch, *planted.UNKNOWN)
    jfn = jit(program, fuser_fallback=True, **KERNELS)
    x, y = inputs()
    with pytest.warns(RuntimeWarning, match=r"torch runs a segment .*\n[\s\S]*run it alone: "):
        torch.testing.assert_close(jfn(x, y), program(x, y))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        other = torch.randn(5, 3).t()
        torch.testing.assert_close(jfn(other, y), program(other, y))


@pytest.mark.parametrize(("owner", "stage"), [(Draft, "lower"), (tuning, "emit")])
def test_fallback_covers_generating(
    owner: object, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, stage, broken)
    x, y = inputs()
    with pytest.warns(RuntimeWarning, match="KeyError: 'i7'"):
        found = jit(program, fuser_fallback=True, **KERNELS)(x, y)
    torch.testing.assert_close(found, program(x, y))


def test_only_the_segment_that_fails_goes_through_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    lower = Draft.lower

    def fail_at_cos(found: Draft, strict: bool) -> AnyKernel:
        segment = found.schedule.segment
        if any(tv.definition.op.name == "cos" for tv in segment.tensors if tv.definition):
            raise KeyError("i7")
        return lower(found, strict)

    monkeypatch.setattr(Draft, "lower", fail_at_cos)
    x = torch.randn(3, 5)
    with FusionDefinition(cache=FusionCache(Program)) as fd:
        (a,) = example(fd, x)
        b = fd.ops.segment_set(fd.ops.sin(a))
        fd.add_output(fd.ops.cos(b))
    with pytest.raises(GenerateError, match=r"region fusion_0, segment 1 of 2: .*\n.*= cos\("):
        fd.execute([x])
    with pytest.warns(RuntimeWarning, match="segment 1 of 2"):
        (found,) = fd.execute([x], options=Options(fallback=True))
    torch.testing.assert_close(found, x.sin().cos())
    (plan,) = fd.leaf.program.plans
    assert [source is None for source in plan.kernels] == [False, True]


@pytest.mark.parametrize("kind", [torch.OutOfMemoryError, CaptureError])
def test_fallback_leaves_memory_and_capture_alone(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **keywords: object) -> object:
        raise kind("no")

    monkeypatch.setattr(pipeline.KERNELS, "launchers", fail)
    with pytest.raises(kind):
        jit(program, fuser_fallback=True, **KERNELS)(*inputs())


def test_a_missing_compiler_is_torch_with_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    host_compiler._find_compiler.cache_clear()
    host_compiler._warn_missing.cache_clear()
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for rows in (3, 4):
                x, y = torch.randn(rows, 5), torch.randn(rows, 5)
                torch.testing.assert_close(jit(program, **KERNELS)(x, y), program(x, y))
        assert sum("no C++ compiler was found" in str(w.message) for w in seen) == 1
    finally:
        monkeypatch.undo()
        host_compiler._find_compiler.cache_clear()
        host_compiler._warn_missing.cache_clear()


def test_a_missing_nvrtc_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> object:
        raise RuntimeError("libnvrtc.so not found")

    nvrtc.identity.cache_clear()
    monkeypatch.setattr(nvrtc.nvrtc, "nvrtcVersion", missing)
    monkeypatch.setattr(pipeline, "target_for", lambda device: cuda("sm_90a", 132))
    try:
        with pytest.raises(FuserError, match=r"region TF0, .*install nvidia-cuda-nvrtc"):
            jit(program, **KERNELS)(*inputs())
    finally:
        nvrtc.identity.cache_clear()


def test_an_unwritable_dump_does_not_hide_a_compiler_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted.plant(monkeypatch, *planted.UNKNOWN)
    blocked = tmp_path / "file"
    blocked.write_text("")
    jfn = jit(program, fuser_dump=str(blocked), **KERNELS)
    with pytest.warns(RuntimeWarning, match="cannot be written"), pytest.raises(CompileError):
        jfn(*inputs())


def test_bad_arguments_stay_value_errors() -> None:
    with FusionDefinition(cache=FusionCache(Program)) as fd:
        a, b = (fd.define_tensor([-1], contiguity=True) for _ in range(2))
        fd.add_output(fd.ops.add(a, b))
    with pytest.raises(ValueError, match="do not broadcast"):
        fd.execute([torch.randn(3), torch.randn(4)])
