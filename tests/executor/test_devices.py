"""Which devices are claimed, told from traces alone: no CUDA device is needed."""

from __future__ import annotations

from typing import Any

import pytest
import thunder.core.dtypes as dtypes
import thunder.core.prims as prims
import thunder.torch as ltorch
from thunder.core.devices import DeviceType, to_device
from thunder.core.proxies import TensorProxy
from thunder.core.trace import TraceCtx, tracectx

from thunder_fuser.executor import claims


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with a CUDA device."""
    monkeypatch.setattr(claims, "claimed_device_type", lambda: DeviceType.CUDA)


def add(*operands: tuple[str, tuple[int, ...]]) -> Any:
    """The bound symbol of `a + b` for operands given by device and shape."""
    trace = TraceCtx(None)
    with tracectx(trace):
        a, b = (
            TensorProxy(
                shape=shape, device=to_device(device), dtype=dtypes.float32, requires_grad=False
            )
            for device, shape in operands
        )
        return prims.add.bind(a, b, output=TensorProxy(like=a))


@pytest.mark.usefixtures("cuda")
def test_cuda_tensors_are_claimed() -> None:
    bsym = add(("cuda:0", (3,)), ("cuda:0", (3,)))
    assert claims.why_not(bsym) is None
    assert claims.device_of(bsym) == "cuda:0"


@pytest.mark.usefixtures("cuda")
def test_cpu_tensors_stay_with_torch_where_there_is_cuda() -> None:
    assert claims.why_not(add(("cpu", (3,)), ("cpu", (3,)))) == "no CUDA tensor"


@pytest.mark.usefixtures("cuda")
def test_a_zero_dim_cpu_tensor_may_stand_beside_cuda() -> None:
    bsym = add(("cuda:0", (3,)), ("cpu", ()))
    assert claims.why_not(bsym) is None
    assert [claims.is_cpu_scalar(p) for p in bsym.flat_proxy_args] == [False, True]


@pytest.mark.usefixtures("cuda")
def test_a_cpu_matrix_beside_cuda_is_refused() -> None:
    reason = claims.why_not(add(("cuda:0", (3,)), ("cpu", (3,))))
    assert reason is not None
    assert "is on cpu, the others on cuda:0" in reason


def uniform(device: str) -> Any:
    """The bound symbol of three random numbers."""
    where, dtype = to_device(device), dtypes.float32
    with tracectx(TraceCtx(None)):
        out = TensorProxy(shape=(3,), device=where, dtype=dtype, requires_grad=False)
        return prims.uniform.bind((3,), 0.0, 1.0, device=where, dtype=dtype, output=out)


@pytest.mark.usefixtures("cuda")
def test_uniform_is_kept_alone_to_be_given_a_seed() -> None:
    part = uniform("cuda:0")
    rand = ltorch.rand.bind(3, output=part.output, subsymbols=(part,))
    assert claims.why_not(part) is None
    assert claims.why_not(rand) == "uniform: it must stand alone to be given a seed"


def test_uniform_on_the_cpu_stays_with_torch() -> None:
    assert claims.why_not(uniform("cpu")) == "the CPU generator has no (seed, offset)"


@pytest.mark.usefixtures("cuda")
def test_two_devices_are_refused() -> None:
    reason = claims.why_not(add(("cuda:0", (3,)), ("cuda:1", (3,))))
    assert reason == "tensors on several devices: cuda:0, cuda:1"
