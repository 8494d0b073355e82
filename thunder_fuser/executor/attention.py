"""Attention by cuDNN, on GPUs where torch prefers it.

    y = scaled_dot_product_attention(q, k, v, is_causal=True)
        =>  y, logsumexp, seed, offset = cudnn_attention(q, k, v, True, None)

No region holds attention. Thunder's `sdpa_ex` gives it to flash attention or to the memory
efficient kernel; on Hopper and Blackwell of data centres torch, and so Inductor, prefers cuDNN's,
which takes half of the time. What is refused here, such as a mask, is left to the executors behind
ours. With `sdpa_ex` before ours the flash attention that it chose becomes cuDNN's under the same
conditions. `torch.backends.cuda.enable_cudnn_sdp(False)` turns both off.
"""

from __future__ import annotations

from inspect import signature
from operator import itemgetter
from typing import Any

import thunder.core.dtypes as dtypes
import thunder.torch as ltorch
import torch
from thunder.core.devices import DeviceType, to_torch_device
from thunder.core.prims import OpTags
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx, from_trace, tracectx
from thunder.core.transforms import get_grad, put_grads
from thunder.executors.sdpaex import sdpfa_bwd, sdpfa_gradfwd
from thunder.extend import OperatorExecutor, register_executor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.backends.cuda import SDPAParams, can_use_cudnn_attention, cudnn_sdp_enabled

from thunder_fuser.executor.replacement import Computed, Replacement

FORWARD, BACKWARD = "cudnn_attention", "cudnn_attention_backward"
FLASH_FORWARD, FLASH_BACKWARD = sdpfa_gradfwd.name, sdpfa_bwd.name
_PREFERRED = (9, 10)  # major compute capabilities for which torch tries cuDNN first
_HALVES = (dtypes.bfloat16, dtypes.float16)

# What holds the two operators. It claims nothing, so there is no need to pass it.
KERNELS = OperatorExecutor("thunder_fuser_attention", version=torch.__version__)
register_executor(KERNELS)


def can_replace(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: Any = 0.0,
    is_causal: Any = False,
    *,
    scale: Any = None,
) -> bool:
    """True for q (B, H, T, D), k and v (B, H, S, D) in 16 bits on a GPU of which torch prefers
    cuDNN's attention, and which that can take, without mask and dropout, and of static shape."""
    operands = (query, key, value)
    is_known = isinstance(dropout_p, (int, float)) and isinstance(is_causal, bool)
    if attn_mask is not None or not is_known or dropout_p != 0:  # a proxy is not to be compared
        return False
    if not (scale is None or isinstance(scale, (int, float))):
        return False
    if not all(type(t) is TensorProxy and t.ndim == 4 for t in operands):
        return False
    if len({(t.device, dtypes.to_strong_dtype(t.dtype)) for t in operands}) != 1:
        return False
    if query.device.devicetype is not DeviceType.CUDA or query.dtype not in _HALVES:
        return False
    if not all(isinstance(size, int) for t in operands for size in t.shape):
        return False
    if len({t.shape[-1] for t in operands}) != 1:
        return False
    return _is_cudnns(query, key, value, is_causal)


def _is_cudnns(query: Any, key: Any, value: Any, is_causal: bool) -> bool:
    """Whether torch prefers cuDNN on this GPU, and cuDNN can take them, with a backward to come."""
    device = to_torch_device(query.device)
    major, _ = torch.cuda.get_device_capability(device)
    if not cudnn_sdp_enabled() or major not in _PREFERRED:
        return False
    with FakeTensorMode():
        fakes = [
            torch.empty(
                t.shape, dtype=dtypes.to_torch_dtype(t.dtype), device=device, requires_grad=True
            )
            for t in (query, key, value)
        ]
        has_groups = False  # Thunder's attention takes no grouped heads
        params = SDPAParams(*fakes, None, 0.0, is_causal, has_groups)
        return bool(can_use_cudnn_attention(params, debug=False))


def compute(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> Computed:
    """(B, H, T, D): softmax(q k^T scale) v, of what comes up to each place only if it is causal."""
    operands, options = (query, key, value), (is_causal, scale)
    result, *saved = _attend(*operands, *options)

    def backward() -> None:
        given = get_grad(result)
        put_grads(operands, _attend_backward(given, *operands, result, *saved, *options))

    return result, backward


def flash_by_cudnn(trace: TraceCtx) -> TraceCtx:
    """The trace with cuDNN's attention, and its backward, where sdpa_ex took flash attention of
    what can be replaced; the trace itself where there is none."""
    saved: dict[str, tuple[Any, ...]] = {}  # by the name of flash attention's result
    result = from_trace(trace)
    with tracectx(result):
        result.bound_symbols.extend(_by_cudnn(bsym, saved) for bsym in trace.bound_symbols)
    return result if saved else trace


def _by_cudnn(bsym: BoundSymbol, saved: dict[str, tuple[Any, ...]]) -> BoundSymbol:
    """What runs in place of an operation of the trace. `saved` is what cuDNN's backward reads of
    its forward: the logarithms of sums lie in another shape than flash attention's."""
    if bsym.sym.name == FLASH_FORWARD:
        given = _arguments(bsym)
        if not can_replace(**given):
            return bsym
        read = itemgetter("query", "key", "value", "is_causal", "scale")(given)
        attended, *_, seed, offset, _ = bsym.output
        _, sums, *_ = _forward_meta(*read)
        saved[attended.name] = (sums, seed, offset)
        return _attend.bind(*read, output=(attended, *saved[attended.name]))
    if bsym.sym.name == FLASH_BACKWARD:
        given = _arguments(bsym)
        if given["out"].name in saved:
            read = itemgetter("grad_out", "query", "key", "value", "out")(given)
            options = given["is_causal"], given["scale"]
            kept = saved[given["out"].name]
            return _attend_backward.bind(*read, *kept, *options, output=bsym.output)
    return bsym


def _arguments(bsym: BoundSymbol) -> dict[str, Any]:
    """By the names of the operator's parameters."""
    bound = signature(bsym.sym.meta).bind(*bsym.args, **bsym.kwargs)
    bound.apply_defaults()
    return bound.arguments


def _forward_meta(query: Any, key: Any, value: Any, is_causal: bool, scale: float | None) -> Any:
    result = TensorProxy(like=query, shape=(*query.shape[:3], value.shape[3]))
    sums = TensorProxy(
        like=query, shape=(*query.shape[:3], 1), dtype=dtypes.float32, requires_grad=False
    )
    seed, offset = (
        TensorProxy(like=query, shape=(), dtype=dtypes.int64, requires_grad=False) for _ in range(2)
    )
    return result, sums, seed, offset


def _forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    is_causal: bool,
    scale: float | None,
) -> tuple[torch.Tensor, ...]:
    found = torch.ops.aten._scaled_dot_product_cudnn_attention(
        *map(_in_rows, (query, key, value)), None, True, 0.0, is_causal, False, scale=scale
    )
    result, sums, *_, seed, offset, _ = found
    return result, sums, seed, offset


def _backward_meta(grad: Any, query: Any, key: Any, value: Any, *saved: Any) -> Any:
    return tuple(TensorProxy(like=t) for t in (query, key, value))


def _backward(
    grad: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    result: torch.Tensor,
    sums: torch.Tensor,
    seed: torch.Tensor,
    offset: torch.Tensor,
    is_causal: bool,
    scale: float | None,
) -> tuple[torch.Tensor, ...]:
    found: tuple[torch.Tensor, ...] = torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
        *map(_in_rows, (grad, query, key, value)),
        *(result, sums, seed, offset),
        *(None, None, None),  # a mask, and where sequences of several lengths begin
        *(query.shape[2], key.shape[2], 0.0, is_causal),
        scale=scale,
    )
    return found


def _in_rows(x: torch.Tensor) -> torch.Tensor:
    """With the elements of a head side by side, as the kernels read them."""
    return x if x.stride(-1) == 1 else x.contiguous()


_attend = KERNELS.register_operator(
    FORWARD, meta=_forward_meta, fn=_forward, tags=(OpTags.DONT_AUTO_RECOMPUTE_IN_BACKWARD,)
)
_attend_backward = KERNELS.register_operator(BACKWARD, meta=_backward_meta, fn=_backward)
ATTENTION = Replacement(ltorch.scaled_dot_product_attention, can_replace, compute)
