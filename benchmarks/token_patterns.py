"""What the tokens of sequences (batch, tokens, channels) are put through."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
import torch.nn.functional as F

from benchmarks.cases import FROZEN, Case, Make
from benchmarks.kernels import EPSILON, normed, wide
from benchmarks.pattern import TOKENS, Pattern, alone, planes, scaled, weighted

_HEAD = 64  # channels of a head, if they divide so


def _modulated(make: Make, batch: int, tokens: int, channels: int) -> Case:
    """A diffusion transformer's norm, scaled and shifted for each sample."""

    def function(x: torch.Tensor, shift: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (channels,)) * (1 + scale[:, None]) + shift[:, None]

    per_sample = make.weight(batch, channels), make.weight(batch, channels)
    return planes(function, (make.random(batch, tokens, channels), *per_sample), 2, 3)


def _gated(make: Make, batch: int, tokens: int, channels: int) -> Case:
    """What a gate of each sample lets through of a branch, added to what went around it. The
    gradient of that is a copy of the cotangent, since autograd wants one that nobody else holds."""
    x, branch = (make.random(batch, tokens, channels) for _ in range(2))
    gate = make.weight(batch, channels)
    return planes(lambda x, branch, gate: x + gate[:, None] * branch, (x, branch, gate), 3, 4)


def _positioned(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    return F.gelu(x + positions)


def _masked_mean(make: Make, batch: int, tokens: int, channels: int) -> Case:
    """Of the tokens of each sample that are there."""
    mask = make.random(batch, tokens, gradient=False) > 0

    def function(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        there = mask.to(x.dtype)[..., None]
        return (x * there).sum(1) / there.sum(1).clamp(min=1)

    return planes(function, (make.random(batch, tokens, channels), mask), 1, 1)


def _response_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """ConvNeXt V2's: each channel by the size of its tokens beside that of the others."""
    exact = wide(x)
    size = exact.pow(2).sum(1, keepdim=True).sqrt()
    share = size / (size.mean(-1, keepdim=True) + EPSILON)
    return (weight * (exact * share) + bias + exact).to(x.dtype)


def _rotated(make: Make, batch: int, tokens: int, channels: int) -> Case:
    """Queries of a head, normalised, and rotated by their place."""
    turns = (make.random(tokens, channels, gradient=FROZEN) for _ in range(2))

    def function(
        x: torch.Tensor, weight: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> torch.Tensor:
        y = normed(x) * weight
        low, high = y.chunk(2, -1)
        return y * cos + torch.cat((-high, low), -1) * sin

    inputs = make.random(batch, tokens, channels), make.weight(channels), *turns
    return planes(function, inputs, 2, 3)


def _token_shift(x: torch.Tensor, mix: torch.Tensor) -> torch.Tensor:
    """Each token mixed with the one before it (RWKV)."""
    before = torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1]), 1)
    return x + (before - x) * mix


def _head_norm(x: torch.Tensor) -> torch.Tensor:
    """Queries of all heads, each normalised, head by head."""
    batch, tokens, channels = x.shape
    size = _HEAD if channels % _HEAD == 0 else channels
    return normed(x.reshape(batch, tokens, -1, size)).transpose(1, 2).contiguous()


PATTERNS: Mapping[str, Pattern] = {
    "modulated": Pattern(TOKENS, _modulated),
    "gated": Pattern(TOKENS, _gated),
    "positioned": Pattern(TOKENS, scaled(_positioned, (1, 2), 2, 3)),
    "mean_tokens": Pattern(TOKENS, alone(lambda x: x.mean(1), 1, 1)),
    "masked_mean": Pattern(TOKENS, _masked_mean),
    "softmax_tokens": Pattern(TOKENS, alone(partial(torch.softmax, dim=1), 2, 3)),
    "cumsum_tokens": Pattern(TOKENS, alone(partial(torch.cumsum, dim=1), 2, 2)),
    "response_norm": Pattern(TOKENS, weighted(_response_norm, -1, 2, 3)),
    "head_norm": Pattern(TOKENS, alone(_head_norm, 2, 3)),
    "rotated": Pattern(TOKENS, _rotated),
    "token_shift": Pattern(TOKENS, scaled(_token_shift, (2,), 2, 3)),
    "turned_tokens": Pattern(TOKENS, alone(lambda x: F.gelu(x.transpose(1, 2)).contiguous(), 2, 3)),
}
