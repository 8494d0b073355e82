"""check=nan|bounds|eager: right kernels pass, planted faults are named."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import torch

from tests import planted
from tests.executor.jitted import check as check_values
from tests.executor.jitted import jit
from tests.executor.test_rope import rope
from tests.frontend.fusions import example
from thunder_fuser.frontend import FusionCache, FusionDefinition
from thunder_fuser.options import Options
from thunder_fuser.program import Program
from thunder_fuser.runtime.errors import CheckError

MODES = ("nan", "bounds", "eager")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
on_host = pytest.mark.skipif(DEVICE == "cuda", reason="red zones are on the host")


@pytest.fixture(autouse=True)
def nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where repro scripts go


def exponential(x: torch.Tensor) -> FusionDefinition:
    with FusionDefinition(cache=FusionCache(Program)) as fd:
        (a,) = example(fd, x)
        fd.add_output(fd.ops.exp(a))
    return fd


@pytest.mark.parametrize("mode", MODES)
def test_right_kernels_pass(mode: str) -> None:
    options = {"fuser_check": mode, "fuser_evaluator": False}
    qkv = torch.randn(2, 5, (4 + 4) * 8, dtype=torch.bfloat16, requires_grad=True)
    tables = (torch.randn(5, 4, dtype=torch.bfloat16) for _ in range(2))
    check_values_loosely(mode, qkv, *tables)

    def program(x: torch.Tensor, y: torch.Tensor, flag: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z = torch.where(flag, x.t() * 2 + y, float("-inf"))
        x.mul_(3)
        return z, torch.exp(x), y > 0

    args = torch.randn(7, 5), torch.randn(5, 7), torch.randn(5, 7) > -9
    check_values(program, *args, **options)


def check_values_loosely(mode: str, *args: torch.Tensor) -> None:
    fn = rope(4, 2, 8, 4)
    found = jit(fn, fuser_check=mode, fuser_evaluator=False)(*args)
    torch.testing.assert_close(found, fn(*args), rtol=3e-2, atol=3e-2)


def test_nan_names_tensor_and_segment() -> None:
    x = torch.ones(3, 5, device=DEVICE)
    x[2, 1] = -1.0
    with FusionDefinition(cache=FusionCache(Program)) as fd:
        (a,) = example(fd, x)
        b = fd.ops.segment_set(fd.ops.mul(a, 2.0))
        fd.add_output(fd.ops.sqrt(b))
    message = (
        r"region fusion_0, segment 1 of 2: T3 has 1 elements that are not finite, the first is nan "
        r"at \(2, 1\)[\s\S]*T3: f32\[i3, i5\] = sqrt\(T2\)  at .*test_check\.py"
    )
    with pytest.raises(CheckError, match=message):
        fd.execute([x], options=Options(check="nan"))


def test_nan_passes_what_came_in_and_what_the_program_writes() -> None:
    x = torch.randn(3, 5, device=DEVICE)
    x[0, 0] = float("nan")
    assert exponential(x).execute([x], options=Options(check="nan"))[0].isnan().any()
    with FusionDefinition(cache=FusionCache(Program)) as fd:
        (a,) = example(fd, x)
        fd.add_output(fd.ops.where(fd.ops.gt(a, 0.0), 1.0, float("-inf")))
    masked = fd.execute([torch.randn(3, 5, device=DEVICE)], options=Options(check="nan"))[0]
    assert masked.isinf().any()


def test_eager_names_the_first_wrong_element(monkeypatch: pytest.MonkeyPatch) -> None:
    planted.plant(monkeypatch, *planted.OTHER_VALUE)
    x = torch.randn(3, 5, device=DEVICE)
    message = r"segment 0 of 1: T1 differs from torch in 15 of 15 elements, first at \(0, 0\): "
    with pytest.raises(CheckError, match=message) as raised:
        exponential(x).execute([x], options=Options(check="eager"))
    assert raised.value.repro is not None
    assert "check='eager'" in raised.value.repro.read_text()


def test_eager_compares_what_is_written_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(3, 5, device=DEVICE)
    with FusionDefinition(cache=FusionCache(Program)) as fd:
        (a,) = example(fd, x)
        fd.add_output(fd.ops.exp(a), alias_input=a)
    before = x.clone()
    fd.execute([x], options=Options(check="eager"))
    torch.testing.assert_close(x, before.exp())
    planted.plant(monkeypatch, *planted.OTHER_VALUE)
    with pytest.raises(CheckError, match="T0 differs from torch"):
        fd.execute([x + 1], options=Options(check="eager", strict=True))


@on_host
def test_bounds_finds_a_write_beyond_a_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    planted.plant(monkeypatch, *planted.STORE_BEYOND)
    x = torch.randn(4, 8)
    message = r"segment 0 of 1: T1: byte \d+ was written, after a tensor of 128 bytes"
    with pytest.raises(CheckError, match=message):
        exponential(x).execute([x], options=Options(check="bounds"))


@on_host
def test_bounds_finds_a_read_beyond_a_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    planted.plant(monkeypatch, *planted.LOAD_BEYOND)
    x = torch.randn(4, 8)
    with pytest.raises(CheckError, match="T1 depends on memory outside of what the segment reads"):
        exponential(x).execute([x], options=Options(check="bounds"))


@on_host
def test_bounds_has_its_room_on_the_host_whatever_the_default_device() -> None:
    x = torch.randn(5, 7)
    with torch.device("meta"):
        (y,) = exponential(x).execute([x], options=Options(check="bounds"))
    torch.testing.assert_close(y, x.exp())


@on_host
def test_bounds_keeps_alignment_and_strides() -> None:
    storage = torch.randn(100)
    x = storage[1:].as_strided((3, 4), (9, 2))
    out = exponential(x).execute([x], options=Options(check="bounds"))
    torch.testing.assert_close(out[0], x.exp())
