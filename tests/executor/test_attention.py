"""Which attention goes to cuDNN, and that it is attention."""

from __future__ import annotations

from typing import Any

import pytest
import thunder
import thunder.core.dtypes as dtypes
import torch
from thunder.core.devices import Device
from thunder.core.proxies import TensorProxy
from thunder.core.trace import TraceCtx, tracectx
from thunder.executors.sdpaex import sdpa_ex
from torch import Tensor
from torch.nn import functional as F

from tests.executor.attention import watch
from thunder_fuser import fuser
from thunder_fuser.executor import attention

B, H, T, D = 2, 3, 40, 64
BF16, F16, F32 = dtypes.bfloat16, dtypes.float16, dtypes.float32


def proxies(dtype: dtypes.dtype, *shapes: tuple[int, ...], device: str = "cuda:0") -> list[Any]:
    return [TensorProxy(shape=shape, device=Device(device), dtype=dtype) for shape in shapes]


SAME = ((B, H, T, D),) * 3
CASES: dict[str, tuple[Any, dict[str, Any], bool]] = {
    "plain": ((BF16, *SAME), {}, True),
    "causal, scaled": ((F16, *SAME), {"is_causal": True, "scale": 0.5}, True),
    "other keys": ((BF16, (B, H, 1, D), (B, H, T, D), (B, H, T, D)), {}, True),
    "dropout": ((BF16, *SAME), {"dropout_p": 0.1}, False),
    "mask": ((BF16, *SAME), {"attn_mask": True}, False),
    "32 bits": ((F32, *SAME), {}, False),
    "other values": ((BF16, *SAME[:2], (B, H, T, 32)), {}, False),
    "three dims": ((BF16, *((H, T, D),) * 3), {}, False),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("is_cudnns", [True, False])
def test_what_torch_gives_to_cudnn_is_taken(
    case: str, is_cudnns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "_is_cudnns", lambda *args: is_cudnns)
    (dtype, *shapes), options, expected = CASES[case]
    with tracectx(TraceCtx(None)):
        operands = proxies(dtype, *shapes)
        if "attn_mask" in options:
            options = {"attn_mask": proxies(BF16, (T, T))[0]}
        assert attention.can_replace(*operands, **options) == (expected and is_cudnns)


@pytest.mark.parametrize(
    ("capability", "is_enabled", "can", "expected"),
    [
        ((9, 0), True, True, True),
        ((10, 3), True, True, True),
        ((8, 0), True, True, False),
        ((12, 0), True, True, False),
        ((9, 0), False, True, False),
        ((9, 0), True, False, False),
    ],
)
def test_cudnns_is_what_it_can_take_on_a_gpu_of_which_torch_prefers_it(
    capability: tuple[int, int],
    is_enabled: bool,
    can: bool,
    expected: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    def can_use(params: Any, debug: bool) -> bool:
        asked.append(params)
        return can

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(attention, "cudnn_sdp_enabled", lambda: is_enabled)
    monkeypatch.setattr(attention, "can_use_cudnn_attention", can_use)
    with tracectx(TraceCtx(None)):
        assert attention.can_replace(*proxies(BF16, *SAME), is_causal=True) == expected
    for params in asked:
        assert (params.query.shape, params.key.dtype) == (SAME[0], torch.bfloat16)
        assert params.is_causal
        assert params.query.requires_grad


def test_what_is_not_of_one_gpu_and_type_is_left() -> None:
    with tracectx(TraceCtx(None)):
        (on_cpu,) = proxies(BF16, SAME[0], device="cpu")
        (half,), (other,) = proxies(F16, SAME[0]), proxies(BF16, SAME[0], device="cuda:1")
        (first,) = proxies(BF16, SAME[0])
        for operands in ((on_cpu,) * 3, (first, half, first), (first, first, other)):
            assert not attention.can_replace(*operands)


def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """With something of ours before and behind it."""
    return F.scaled_dot_product_attention(torch.tanh(q), k, v, is_causal=True, scale=0.25) * 2


def passes(function: Any, args: list[Tensor], cotangent: Tensor) -> list[Tensor]:
    found = function(*args)
    return [found, *torch.autograd.grad(found, args, cotangent)]


@pytest.mark.parametrize("length", [1, 37, T, 257])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["cudnn", "cudnn for flash"])
def test_values_and_gradients_are_as_near_as_eagers(
    kind: str,
    dtype: torch.dtype,
    length: int,
    device: torch.device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a GPU by what torch gives to cuDNN: one query of one key it does not."""
    jfn = (
        watch(monkeypatch, kind).jit(attended)
        if device.type == "cpu"
        else thunder.jit(attended, executors=[sdpa_ex, fuser] if "flash" in kind else [fuser])
    )
    args = [torch.randn(B, H, length, D).to(dtype) for _ in range(3)]
    cotangent = torch.randn(B, H, length, D).to(dtype)
    here = [t.to(device).requires_grad_() for t in args]
    found = passes(jfn, here, cotangent.to(device))
    eager = passes(attended, here, cotangent.to(device))
    exact = passes(attended, [t.double().requires_grad_() for t in args], cotangent.double())
    rounding = torch.finfo(dtype).eps
    for ours, theirs, true in zip(found, eager, exact, strict=True):
        errors = [(t.detach().cpu().double() - true.detach()).norm() for t in (ours, theirs)]
        assert errors[0] <= 2 * errors[1] + rounding * true.norm()


@pytest.mark.gpu
@pytest.mark.parametrize("before", [(), (sdpa_ex,)])
@pytest.mark.parametrize("is_enabled", [True, False])
def test_what_torch_prefers_is_taken_whoever_is_first(
    before: tuple[Any, ...], is_enabled: bool
) -> None:
    if torch.cuda.get_device_capability()[0] not in (9, 10):
        pytest.skip("torch prefers other kernels")
    args = [torch.randn(B, H, T, D, device="cuda").bfloat16().requires_grad_() for _ in range(3)]
    was_enabled = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(is_enabled)
    try:
        jfn = thunder.jit(attended, executors=[*before, fuser])
        jfn(*args).sum().backward()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(was_enabled)
    trace = str(thunder.last_traces(jfn)[-1])
    assert (attention.FORWARD in trace) == is_enabled
    assert (attention.FLASH_FORWARD in trace) == (not is_enabled and bool(before))
