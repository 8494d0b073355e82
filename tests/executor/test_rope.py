"""LitGPT's RoPE: one region forward, one backward, nothing saved but cos and sin."""

from __future__ import annotations

import pytest
import torch

from tests.executor.jitted import check, regions, saved


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, n: int) -> torch.Tensor:
    rotated = x[..., :n]
    low, high = rotated[..., : n // 2], rotated[..., n // 2 :]
    turned = rotated * cos + torch.cat((-high, low), dim=-1) * sin
    return torch.cat((turned.to(dtype=x.dtype), x[..., n:]), dim=-1)


def rope(heads: int, groups: int, size: int, n: int):
    per_group = heads // groups

    def program(qkv: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor):
        batch, length, _ = qkv.size()
        qkv = qkv.view(batch, length, groups, per_group + 2, size).permute(0, 2, 3, 1, 4)
        q, k, v = qkv.split((per_group, 1, 1), dim=2)
        if groups not in (heads, 1):
            k = k.expand(batch, groups, per_group, length, size)
            v = v.expand(batch, groups, per_group, length, size)
        q, k, v = (t.reshape(batch, -1, length, size) for t in (q, k, v))
        return rotate(q, cos, sin, n), rotate(k, cos, sin, n), v

    return program


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    ("heads", "groups", "size", "n"), [(4, 2, 8, 4), (3, 3, 6, 6), (4, 1, 8, 4)]
)
def test_rope_is_one_region_each_way(heads: int, groups: int, size: int, n: int) -> None:
    qkv = torch.randn(2, 5, (heads + 2 * groups) * size, requires_grad=True)
    jfn = check(rope(heads, groups, size, n), qkv, torch.randn(5, n), torch.randn(5, n))
    found = regions(jfn)
    assert len(found.forward) == len(found.backward) == 1
    assert saved(jfn).keys() == {"cos", "sin"}
