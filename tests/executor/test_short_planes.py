"""Norms, softmaxes and losses over 9 to 32 elements: a block keeps them, values against fp64 beside
eager's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.executor.judging import Program, judged
from tests.executor.test_short_rows import layer_norm, rms_norm, scaled_layer_norm
from tests.pairwise import pairwise
from thunder_fuser import fuser

pytestmark = pytest.mark.sanitizer
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x * 2, 1)


def normalize(x: torch.Tensor) -> torch.Tensor:
    return F.normalize(x, dim=1)


def channel_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """As of ConvNeXt."""
    away = x - x.mean(1, keepdim=True)
    scale = torch.rsqrt(away.pow(2).mean(1, keepdim=True) + 1e-6)
    return away * scale * w[:, None, None] + b[:, None, None]


def variances(x: torch.Tensor) -> torch.Tensor:
    return (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True) + 1e-3).sqrt()


CASES: dict[str, tuple[Program, torch.dtype, tuple[int, ...], int]] = {
    "softmax of 21 channels": (softmax, BF16, (3, 21, 13, 8), 0),
    "softmax of 9 channels of odd images": (softmax, F32, (5, 9, 7, 3), 0),
    "softmax of rows of 24": (softmax, F16, (301, 24), 0),
    "softmax of rows of 31": (softmax, F32, (17, 31), 0),
    "softmax of 17 rows down columns": (softmax, BF16, (1, 17, 1001), 0),
    "normalised vectors of 16": (normalize, BF16, (4, 16, 9, 16), 0),
    "layer_norm of 16": (layer_norm, BF16, (640, 16), 2),
    "layer_norm of 31": (layer_norm, F32, (97, 31), 2),
    "layer_norm of 32 without a bias": (scaled_layer_norm, F16, (640, 32), 1),
    "rms_norm of 24": (rms_norm, BF16, (5, 61, 24), 1),
    "norm of 16 channels": (channel_norm, BF16, (6, 16, 24, 24), 2),
    "norm of 12 channels of odd images": (channel_norm, F32, (3, 12, 5, 7), 2),
    "variance of 20 channels": (variances, F32, (3, 20, 11, 4), 0),
}


@pytest.mark.parametrize("case", CASES)
def test_errors_are_like_those_of_eager(case: str, device: torch.device) -> None:
    program, dtype, shape, weights = CASES[case]
    extent = shape[-1] if program in (layer_norm, scaled_layer_norm, rms_norm) else shape[1]
    args = [torch.randn(shape).to(dtype), *(torch.randn(extent).to(dtype) for _ in "wb")]
    cotangent = torch.randn(shape).to(dtype)
    jfn = judged(program, args[: 1 + weights], cotangent, device)
    facts = fuser.facts(jfn)
    assert facts.backward is not None
    assert facts.forward.kernels == 1
    assert facts.backward.kernels <= 3
    assert facts.whole.unclaimed_ops == 0


@pytest.mark.parametrize(
    ("classes", "reduction", "dtype"), pairwise([9, 21, 40], ["none", "mean"], [BF16, F32])
)
def test_a_loss_of_images_is_read_once_each_way(
    classes: int, reduction: str, dtype: torch.dtype, device: torch.device
) -> None:
    t = torch.randint(0, classes, (3, 16, 24))
    t[0, :2] = -100

    def program(x: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x, t.to(x.device), reduction=reduction)

    x = torch.randn(3, classes, 16, 24, dtype=dtype)
    jfn = judged(program, [x], torch.randn(program(x).shape, dtype=dtype), device)
    facts = fuser.facts(jfn)
    assert facts.backward is not None
    assert (facts.forward.kernels, facts.backward.kernels) == (
        1 + (classes > 32 and reduction == "mean"),
        1,
    )
