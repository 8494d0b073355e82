"""LitGPT's RoPE as fusions, forward and backward, with the shapes of NVIDIA/Fuser#2577."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tests.programs import (
    cat,
    chain,
    expand,
    full,
    fusion,
    pad,
    permute,
    piece,
    reshape,
    total,
    unsqueeze,
)
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import build
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.runtime.dtypes import TORCH_DTYPES


@dataclass(frozen=True)
class Rope:
    """Sizes of one attention front end: `rotated` of `size` elements of a head turn."""

    batch: int = 2
    length: int = 8
    heads: int = 8
    groups: int = 2
    size: int = 32
    rotated: int = 8
    dtype: DataType = DataType.BFloat16

    @property
    def per_group(self) -> int:
        return self.heads // self.groups

    @property
    def width(self) -> int:
        return (self.heads + 2 * self.groups) * self.size

    def forward(self) -> Fusion:
        """x (B, T, width), cos and sin (T, rotated) -> q, k, v (B, heads, T, size)."""
        x = build.tensor(self.dtype, self.batch, self.length, self.width)
        cos, sin = (build.tensor(self.dtype, self.length, self.rotated) for _ in range(2))
        split = (self.batch, self.length, self.groups, self.per_group + 2, self.size)
        heads = permute(reshape(x, *split), 0, 2, 3, 1, 4)
        n = self.per_group
        q, k, v = (piece(heads, 2, a, b) for a, b in ((0, n), (n, n + 1), (n + 1, n + 2)))
        if self.groups not in (1, self.heads):
            wide = (self.batch, self.groups, n, self.length, self.size)
            k, v = expand(k, *wide), expand(v, *wide)
        q, k, v = (self._heads(t) for t in (q, k, v))
        return fusion([x, cos, sin], self._turn(q, cos, sin), self._turn(k, cos, sin), v)

    def _heads(self, tv: TensorView) -> TensorView:
        return reshape(tv, self.batch, tv.shape[1] * tv.shape[2], self.length, self.size)

    def _turn(self, x: TensorView, cos: TensorView, sin: TensorView) -> TensorView:
        part, half = piece(x, 3, 0, self.rotated), self.rotated // 2
        low, high = piece(part, 3, 0, half), piece(part, 3, half, self.rotated)
        turned = cat(chain(high, "neg"), low)
        turned = call("add", call("mul", part, cos), call("mul", turned, sin))
        return cat(turned, piece(x, 3, self.rotated, self.size))

    def backward(self) -> Fusion:
        """dq, dk, dv (B, heads, T, size), cos and sin -> dx (B, T, width), for grouped heads."""
        shape = (self.batch, self.heads, self.length, self.size)
        dq, dk, dv = (build.tensor(self.dtype, *shape) for _ in range(3))
        cos, sin = (build.tensor(self.dtype, self.length, self.rotated) for _ in range(2))
        grouped = (self.batch, self.groups, self.per_group, self.length, self.size)
        q = reshape(self._turn_back(dq, cos, sin), *grouped)
        k, v = (reshape(t, *grouped) for t in (self._turn_back(dk, cos, sin), dv))
        if self.groups != self.heads:
            k, v = (self._sum(t) for t in (k, v))
        joined = permute(cat(q, k, v, dim=2), 0, 3, 1, 2, 4)
        return fusion([dq, dk, dv, cos, sin], reshape(joined, self.batch, self.length, self.width))

    def _sum(self, tv: TensorView) -> TensorView:
        """The sum over the replicas of a group, in f32 as eager does it."""
        summed = total(call("cast", tv, dtype=DataType.Float), 2)
        return call("cast", unsqueeze(summed, 2), dtype=self.dtype)

    def _turn_back(self, dy: TensorView, cos: TensorView, sin: TensorView) -> TensorView:
        """Padded pieces added up, as traces have it; the first addend is a constant."""
        n, half, size = self.rotated, self.rotated // 2, self.size
        part = piece(dy, 3, 0, n)
        turned = call("mul", part, sin)
        low, high = piece(turned, 3, half, n), chain(piece(turned, 3, 0, half), "neg")
        straight = call("mul", part, cos)
        parts = [
            pad(full(0, *dy.shape[:3], 0, dtype=self.dtype), [0, size]),
            pad(piece(dy, 3, n, size), [n, 0]),
            pad(low, [0, size - half]),
            pad(high, [half, size - n]),
            pad(straight, [0, size - n]),
        ]
        result = parts[0]
        for addend in parts[1:]:
            result = call("add", result, addend)
        return result

    def arguments(self, program: Fusion) -> list[torch.Tensor]:
        """Fresh random arguments for one of the fusions."""
        tensors = (tv for tv in program.inputs if isinstance(tv, TensorView))
        return [torch.randn(tv.shape).to(TORCH_DTYPES[tv.dtype]) for tv in tensors]


CASES = {
    "gqa_partial": Rope(),
    "gqa_full": Rope(rotated=32),
    "mha_partial": Rope(heads=4, groups=4),
    "mha_full": Rope(heads=4, groups=4, rotated=32),
    "mqa_partial": Rope(heads=4, groups=1),
    "one_batch": Rope(batch=1, heads=4, groups=2),
    "two_fifths": Rope(size=80, rotated=32),  # the pieces of 16 that turn each other are not one's
    "three_quarters": Rope(heads=4, groups=4, size=64, rotated=48),  # halves end inside a piece
    "half": Rope(heads=4, groups=1, size=64, rotated=32, dtype=DataType.Float),
}
