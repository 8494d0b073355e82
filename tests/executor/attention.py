"""Thunder's flash attention seen at the call, on a GPU or without one.

`sdpa_ex` calls two ops of torch, which exist on CUDA alone. Both are watched here: how their
operands lie, and which of them torch copies. On the CPU they are computed here as well, and lay
their results out as torch's do: `test_memory_order.py` holds torch's own shape functions to that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pytest
import thunder
import torch
from thunder.executors import sdpaex
from thunder.executors.utils import SpdaBackend

from tests.devices import here
from thunder_fuser import fuser

Tensors = tuple[torch.Tensor, ...]

_FORWARD = "_scaled_dot_product_flash_attention"
_BACKWARD = f"{_FORWARD}_backward"


@dataclass
class Calls:
    """Strides of query, key and value of each forward, and what each backward had to copy."""

    strides: list[list[tuple[int, ...]]] = field(default_factory=list)
    copied: list[set[str]] = field(default_factory=list)


def watch(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Let Thunder take flash attention for every call of the test, and record the calls."""
    calls, ops = Calls(), torch.ops.aten
    symbol = thunder.torch.scaled_dot_product_attention.id
    monkeypatch.setattr(sdpaex.sdpa_ex.implmap[symbol], "checker", lambda *args, **kwargs: True)
    monkeypatch.setattr(
        sdpaex, "_fused_sdp_choice", lambda *args, **kwargs: SpdaBackend.FLASH_ATTENTION
    )
    is_cpu = here().type == "cpu"
    attend = _attend if is_cpu else getattr(ops, _FORWARD)
    attend_back = _attend_back if is_cpu else getattr(ops, _BACKWARD)

    def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *args: Any, **kw: Any) -> Any:
        calls.strides.append([t.stride() for t in (q, k, v)])
        return attend(q, k, v, *args, **kw)

    def backward(
        dy: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, y: torch.Tensor,
        *args: Any, **kw: Any,
    ) -> Any:  # fmt: skip
        operands = {"gradient": dy, "result": y}
        calls.copied.append({n for n, t in operands.items() if not _rows_of_heads(t)})
        return attend_back(dy, q, k, v, y, *args, **kw)

    monkeypatch.setattr(ops, _FORWARD, forward)
    monkeypatch.setattr(ops, _BACKWARD, backward)
    return calls


def jit(fn: Any) -> Any:
    """As `jitted.jit`, with Thunder's attention executor before ours."""
    return thunder.jit(fn, executors=[sdpaex.sdpa_ex, fuser], fuser_evaluator=here().type == "cpu")


def _rows_of_heads(x: torch.Tensor) -> bool:
    return x.transpose(1, 2).is_contiguous()


def _laid_out_like(x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The values as torch's attention lays out what it allocates for an operand."""
    return torch.empty_like(x.transpose(1, 2)).transpose(1, 2).copy_(values)


def _weights(q: torch.Tensor, k: torch.Tensor, is_causal: bool, scale: float) -> torch.Tensor:
    scores = q.float() @ k.float().mT * scale
    if is_causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    return scores.softmax(-1)


def _attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dropout: float, is_causal: bool,
    return_debug_mask: bool, scale: float | None,
) -> tuple[Any, ...]:  # fmt: skip
    batch, heads, length, size = q.shape
    y = _weights(q, k, is_causal, scale or size**-0.5) @ v.float()
    number, lengths = torch.zeros((), dtype=torch.int64), torch.zeros(batch + 1, dtype=torch.int64)
    rest = (lengths, lengths.clone(), length, k.shape[2], number, number.clone(), number.clone())
    return (_laid_out_like(q, y), torch.zeros(batch, heads, length), *rest)


def _attend_back(
    dy: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: Any,
    scale: float | None,
) -> Tensors:  # fmt: skip
    is_causal, scale = rest[7], scale or q.shape[-1] ** -0.5
    weights, wide = _weights(q, k, is_causal, scale), dy.float()
    dweights = wide @ v.float().mT
    dscores = weights * (dweights - (dweights * weights).sum(-1, keepdim=True)) * scale
    found = (dscores @ k.float(), dscores.mT @ q.float(), weights.mT @ wide)
    return tuple(_laid_out_like(t, g) for t, g in zip((q, k, v), found, strict=True))
