"""LitGPT's RoPE: one region forward, one backward, nothing saved but cos and sin."""

from __future__ import annotations

import pytest
import torch

from tests.executor.jitted import check, regions, saved
from thunder_fuser.executor.explain import regions_of


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


@pytest.mark.usefixtures("device")
def test_heads_that_are_normalised_and_turned_are_one_kernel() -> None:
    """As Qwen3's and OLMo 2's: a norm of each head, heads before positions, then the rotation."""

    def program(
        x: torch.Tensor, weight: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> torch.Tensor:
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        heads = ((x.float() * scale).to(x.dtype) * weight).transpose(1, 2)
        low, high = heads.chunk(2, -1)
        return heads * cos + torch.cat((-high, low), -1) * sin

    x, weight = torch.randn(2, 33, 3, 128), torch.randn(128)
    cos, sin = torch.randn(33, 128) / 8, torch.randn(33, 128) / 8
    inputs = [t.requires_grad_() for t in (x, weight)]
    jfn = check(program, *inputs, cos, sin, fuser_evaluator=False)
    forward, backward = ("".join(region.plans()) for region in regions_of(jfn))
    assert forward.count("(kernel") == 1
    assert backward.count("(kernel") <= 2  # the sums of the weight may be another
    assert "(torch" not in forward + backward
