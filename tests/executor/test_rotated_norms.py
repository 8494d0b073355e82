"""Norms of heads whose halves are swapped, as queries and keys are normed before they are rotated:
either half of a row is read at the place of the other."""

from __future__ import annotations

import pytest
import torch

from tests.executor.judging import judged
from tests.executor.test_short_rows import texts

pytestmark = [pytest.mark.sanitizer, pytest.mark.usefixtures("one_multiprocessor")]


def rotated(
    x: torch.Tensor, weight: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> torch.Tensor:
    """x (batch, heads, tokens, size), weight (size), cos and sin (tokens, size)."""
    wide = x.float()
    y = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight
    low, high = y.chunk(2, -1)
    return y * cos + torch.cat((-high, low), -1) * sin


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("heads", "tokens", "size"), [(3, 17, 128), (1, 5, 96), (2, 7, 40), (2, 7, 2)]
)
def test_heads_are_normed_and_rotated_as_eager_does(
    heads: int, tokens: int, size: int, dtype: torch.dtype, device: torch.device
) -> None:
    x = torch.randn(2, heads, tokens, size, dtype=dtype)
    weight, *turns = (
        torch.randn(s, dtype=dtype) for s in ((size,), (tokens, size), (tokens, size))
    )
    jfn = judged(rotated, (x, weight, *turns), torch.randn_like(x), device)
    if size % 16 == 0:  # whole vectors lie in a half
        assert not any("load_if" in text for text in texts(jfn))
    if size == 40 and dtype == torch.bfloat16:  # and half of one
        assert any("load_lanes_if<8, 8>(" in text for text in texts(jfn))
