"""The demo's program: LitGPT's rotary embedding of a fused QKV, as NVIDIA/Fuser#2577 has it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

ROTARY_BASE = 10_000.0
Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Sizes:
    """Sizes of the attention's input; the defaults are the issue's."""

    batch: int = 2
    length: int = 1024
    heads: int = 16
    groups: int = 4  # of query heads that share one key and one value
    head_size: int = 32
    rotated: int = 8  # elements of a head that are rotated

    @property
    def width(self) -> int:
        """Queries, keys and values of one token."""
        return (self.heads + 2 * self.groups) * self.head_size


def program(sizes: Sizes) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Tensors]:
    """`rope(x, cos, sin)` -> q, k, v of (batch, heads, length, head_size).

    x is (batch, length, width), cos and sin are (length, rotated).
    """
    per_group = sizes.heads // sizes.groups

    def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Tensors:
        slots = x.view(sizes.batch, sizes.length, sizes.groups, per_group + 2, sizes.head_size)
        q, k, v = slots.permute(0, 2, 3, 1, 4).split((per_group, 1, 1), dim=2)
        shared = (sizes.batch, sizes.groups, per_group, sizes.length, sizes.head_size)
        heads = (sizes.batch, sizes.heads, sizes.length, sizes.head_size)
        q, k, v = q.reshape(heads), k.expand(shared).reshape(heads), v.expand(shared).reshape(heads)
        return rotate(q, cos, sin), rotate(k, cos, sin), v

    return rope


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """The first elements of each head turned by their position's angle, the rest as they are."""
    size = cos.size(-1)
    head, tail = x[..., :size], x[..., size:]
    turned = torch.cat((-head[..., size // 2 :], head[..., : size // 2]), dim=-1)
    return torch.cat((head * cos + turned * sin, tail), dim=-1)


def arguments(sizes: Sizes, dtype: torch.dtype, device: torch.device) -> Tensors:
    """Random x that wants a gradient, and the cosines and sines of the positions."""
    x = torch.randn(sizes.batch, sizes.length, sizes.width).to(device, dtype).requires_grad_()
    steps = torch.arange(0, sizes.rotated, 2) / sizes.rotated
    angles = torch.outer(torch.arange(sizes.length), torch.exp(-math.log(ROTARY_BASE) * steps))
    angles = angles.repeat(1, 2).to(device)
    return x, angles.cos().to(dtype), angles.sin().to(dtype)
