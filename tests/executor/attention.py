"""Attention seen at the call, on a GPU or without one: Thunder's by flash attention, ours by cuDNN,
and Thunder's that becomes cuDNN's.

Each calls two ops of torch, which exist on CUDA alone. Both are watched here: how their operands
lie, and which of them torch copies. On the CPU they are computed here as well, and lay their
results out as torch's do: `test_memory_order.py` holds torch's own shape functions to that.
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
from thunder_fuser.executor import attention

Tensors = tuple[torch.Tensor, ...]

KINDS = ("flash", "cudnn", "cudnn for flash")


@dataclass
class Calls:
    """Strides of query, key and value of each forward, and what each backward had to copy."""

    kind: str
    strides: list[list[tuple[int, ...]]] = field(default_factory=list)
    copied: list[set[str]] = field(default_factory=list)

    def jit(self, fn: Any) -> Any:
        """As `jitted.jit`, with Thunder's attention executor before ours or without it."""
        before = [] if self.kind == "cudnn" else [sdpaex.sdpa_ex]
        return thunder.jit(fn, executors=[*before, fuser], fuser_evaluator=here().type == "cpu")


def watch(monkeypatch: pytest.MonkeyPatch, kind: str) -> Calls:
    """Let that kind of attention take every call of the test, and record the calls."""
    calls, ops = Calls(kind), torch.ops.aten
    taken = fuser if kind == "cudnn" else sdpaex.sdpa_ex
    symbol = thunder.torch.scaled_dot_product_attention.id
    monkeypatch.setattr(taken.implmap[symbol], "checker", lambda *args, **kwargs: True)
    monkeypatch.setattr(
        sdpaex, "_fused_sdp_choice", lambda *args, **kwargs: SpdaBackend.FLASH_ATTENTION
    )
    monkeypatch.setattr(attention, "can_replace", lambda *args, **kwargs: kind != "flash")
    library = kind.split()[0]
    name = f"_scaled_dot_product_{library}_attention"
    is_cpu = here().type == "cpu"
    stands_in = {"flash": (_flash, _flash_back), "cudnn": (_cudnn, _cudnn_back)}[library]
    real = (getattr(ops, name), getattr(ops, f"{name}_backward"))
    attend, attend_back = stands_in if is_cpu else real

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

    monkeypatch.setattr(ops, name, forward)
    monkeypatch.setattr(ops, f"{name}_backward", backward)
    return calls


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
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool, scale: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The result, and zeros for the logarithms of sums."""
    y = _weights(q, k, is_causal, scale or q.shape[-1] ** -0.5) @ v.float()
    return _laid_out_like(q, y), torch.zeros(q.shape[:3])


def _flash(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dropout: float, is_causal: bool,
    return_debug_mask: bool, scale: float | None,
) -> tuple[Any, ...]:  # fmt: skip
    lengths = torch.zeros(q.shape[0] + 1, dtype=torch.int64)
    rest = (lengths, lengths.clone(), q.shape[2], k.shape[2], *_numbers(3))
    return (*_attend(q, k, v, is_causal, scale), *rest)


def _cudnn(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: None, keeps_sums: bool,
    dropout: float, is_causal: bool, return_debug_mask: bool, scale: float | None,
) -> tuple[Any, ...]:  # fmt: skip
    y, sums = _attend(q, k, v, is_causal, scale)
    return (y, sums[..., None], None, None, q.shape[2], k.shape[2], *_numbers(2), None)


def _numbers(count: int) -> Tensors:
    return tuple(torch.zeros((), dtype=torch.int64) for _ in range(count))


def _flash_back(*args: Any, scale: float | None) -> Tensors:
    return _attend_back(*args[:4], args[11], scale)


def _cudnn_back(*args: Any, scale: float | None) -> Tensors:
    return _attend_back(*args[:4], args[14], scale)


def _attend_back(
    dy: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool,
    scale: float | None,
) -> Tensors:  # fmt: skip
    scale = scale or q.shape[-1] ** -0.5
    weights, wide = _weights(q, k, is_causal, scale), dy.float()
    dweights = wide @ v.float().mT
    dscores = weights * (dweights - (dweights * weights).sum(-1, keepdim=True)) * scale
    found = (dscores @ k.float(), dscores.mT @ q.float(), weights.mT @ wide)
    return tuple(_laid_out_like(t, g) for t, g in zip((q, k, v), found, strict=True))
