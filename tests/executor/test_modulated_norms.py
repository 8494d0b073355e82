"""Norms that are scaled and shifted for each sample, as those of diffusion transformers: the
gradients of what a sample has of its own are sums over its tokens, beside those along them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.executor.judging import judged
from tests.executor.test_short_rows import texts
from tests.pairwise import pairwise

pytestmark = [pytest.mark.sanitizer, pytest.mark.usefixtures("one_multiprocessor")]

WALK = "for (int turn = 0; turn < "  # over the rows of a part
TYPES = [torch.float32, torch.bfloat16]
Program = Callable[..., torch.Tensor]
Sizes = tuple[int, int, int]  # samples, tokens, channels


def modulated(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:]) * (1 + scale[:, None]) + shift[:, None]


def gated(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """With something costly on both sides of the norm, which its gradient computes again."""
    return torch.tanh(modulated(torch.tanh(x), scale, shift))


def check(program: Program, sizes: Sizes, dtype: torch.dtype, device: torch.device) -> list[str]:
    """The kernels of the gradients, which are as exact as eager's."""
    samples, _, channels = sizes
    x = torch.randn(sizes, dtype=dtype)
    scale, shift = (torch.randn(samples, channels, dtype=dtype) for _ in range(2))
    return texts(judged(program, (x, scale, shift), torch.randn_like(x), device))


@pytest.mark.parametrize(
    ("sizes", "dtype", "program"),
    pairwise([(2, 96, 2400), (2, 80, 2080), (2, 97, 2400)], TYPES, [modulated, gated]),
)
def test_few_samples_are_walked_in_parts_that_are_summed_behind(
    sizes: Sizes, dtype: torch.dtype, program: Program, device: torch.device
) -> None:
    """Of rows of so many bytes, too long for stretches."""
    samples, tokens, row = sizes
    walk, behind = check(program, (samples, tokens, row // dtype.itemsize), dtype, device)
    assert WALK in walk
    assert WALK not in behind


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_what_phases_compute_alike_is_held_beside_the_sums(
    dtype: torch.dtype, device: torch.device
) -> None:
    walk, _ = check(gated, (2, 96, 2400 // dtype.itemsize), dtype, device)
    assert WALK in walk
    assert "_held[" in walk


@pytest.mark.parametrize(
    ("sizes", "dtype", "program"),
    pairwise(
        [(1, 64, 512), (5, 33, 1024), (3, 48, 257), (2, 16, 1), (1, 1, 1), (7, 1, 96)],
        TYPES,
        [modulated, gated],
    ),
)
def test_samples_of_any_size_have_gradients_like_eagers(
    sizes: Sizes, dtype: torch.dtype, program: Program, device: torch.device
) -> None:
    check(program, sizes, dtype, device)
