"""A small decoder as LitGPT builds it: RMSNorm, fused QKV, RoPE of grouped heads, cache, SwiGLU."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Shape:
    """`rotated` of the `size` elements of a head turn; `groups` heads have keys and values."""

    vocabulary: int = 53
    width: int = 48
    heads: int = 6
    groups: int = 2
    size: int = 8
    rotated: int = 8
    hidden: int = 70
    layers: int = 2
    longest: int = 16


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float() if x.dtype == torch.bfloat16 else x
        scaled = wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-5)
        return (scaled * self.weight).to(x.dtype)


class Attention(nn.Module):
    """x (B, T, width) -> (B, T, width); with a cache, keys and values up to the last position."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        slots = shape.heads + 2 * shape.groups
        self.qkv = nn.Linear(shape.width, slots * shape.size, bias=False)
        self.out = nn.Linear(shape.heads * shape.size, shape.width, bias=False)
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, at: Tensor, mask: Tensor) -> Tensor:
        s, (batch, length, _) = self.shape, x.shape
        per_group = s.heads // s.groups
        slots = self.qkv(x).view(batch, length, s.groups, per_group + 2, s.size)
        q, k, v = slots.permute(0, 2, 3, 1, 4).split((per_group, 1, 1), dim=2)
        q = turn(q.reshape(batch, s.heads, length, s.size), cos, sin, s.rotated)
        k = turn(k.reshape(batch, s.groups, length, s.size), cos, sin, s.rotated)
        v = v.reshape(batch, s.groups, length, s.size)
        if self.keys is not None and self.values is not None:
            k = self.keys.index_copy_(2, at, k)
            v = self.values.index_copy_(2, at, v)
        k, v = (t.repeat_interleave(per_group, 1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(batch, length, s.heads * s.size))


def turn(x: Tensor, cos: Tensor, sin: Tensor, rotated: int) -> Tensor:
    """x (B, heads, T, size), cos and sin (T, rotated): the first `rotated` elements turned."""
    head = x[..., :rotated]
    half = rotated // 2
    crossed = torch.cat((-head[..., half:], head[..., :half]), -1)
    return torch.cat(((head * cos + crossed * sin).to(x.dtype), x[..., rotated:]), -1)


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.before, self.between = RMSNorm(shape.width), RMSNorm(shape.width)
        self.attention = Attention(shape)
        self.gate = nn.Linear(shape.width, shape.hidden, bias=False)
        self.up = nn.Linear(shape.width, shape.hidden, bias=False)
        self.down = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, at: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attention(self.before(x), cos, sin, at, mask)
        y = self.between(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """Tokens (B, T) at positions `at` (T) -> logits (B, T, vocabulary)."""

    cos: Tensor
    sin: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        rates = 1e4 ** -(torch.arange(0, shape.rotated, 2) / shape.rotated)
        angles = (torch.arange(shape.longest)[:, None] * rates).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens: Tensor, at: Tensor) -> Tensor:
        cached = self.blocks[0].attention.keys is not None
        seen = torch.arange(self.shape.longest, device=tokens.device) if cached else at
        mask = seen <= at[:, None]
        cos, sin = self.cos[at], self.sin[at]
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, cos, sin, at, mask)
        return self.head(self.norm(x))

    def cache(self, batch: int) -> None:
        """Empty caches for `batch` sequences, of the parameters' dtype and device."""
        s = self.shape
        for block in self.blocks:
            size = (batch, s.groups, s.longest, s.size)
            block.attention.keys = self.head.weight.new_zeros(size)
            block.attention.values = self.head.weight.new_zeros(size)
