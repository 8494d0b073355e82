"""Losses with weights of classes, smoothed ones of planes, and what they ignore: torch's values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.executor.jitted import check

pytestmark = pytest.mark.usefixtures("device")
Program = Callable[..., Any]

SHAPES = {"rows": (7, 5), "planes": (2, 5, 3, 4), "lines": (2, 5, 3), "one row": (5,)}


def _classes(shape: tuple[int, ...], ignored: int) -> torch.Tensor:
    target = torch.randint(0, 5, shape[:1] + shape[2:] if len(shape) > 1 else ())
    if target.ndim:
        target[0] = ignored
    return target


@pytest.mark.parametrize("ignored", [-100, 7, 2])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", SHAPES)
def test_what_is_ignored_has_neither_weight_nor_share(
    name: str, reduction: str, ignored: int
) -> None:
    a = torch.randn(SHAPES[name], requires_grad=True)
    target, weight = _classes(SHAPES[name], ignored), torch.rand(5) + 0.5
    same = {"ignore_index": ignored, "reduction": reduction}

    def losses(a: torch.Tensor, t: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        p = F.log_softmax(a, 1 if a.ndim > 1 else 0)
        return (
            F.cross_entropy(a, t, w, **same),
            F.cross_entropy(a, t, w, label_smoothing=0.2, **same),
            F.cross_entropy(a, t, label_smoothing=0.2, **same),
            F.nll_loss(p, t, w, **same),
        )

    check(losses, a, target, weight)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_types(dtype: torch.dtype) -> None:
    a = torch.randn(6, 5, 3, dtype=dtype, requires_grad=True)
    t, w = torch.randint(0, 5, (6, 3)), torch.rand(5, dtype=dtype)
    check(lambda a, t, w: F.cross_entropy(a, t, w, label_smoothing=0.1), a, t, w)


def test_weights_of_bytes() -> None:
    t = torch.tensor([0, 1, 255, 4], dtype=torch.uint8)
    a, w = torch.randn(4, 5, requires_grad=True), torch.rand(5)
    check(lambda a, t, w: F.cross_entropy(a, t, w, ignore_index=255), a, t, w)


def test_nothing_counted_is_no_number() -> None:
    a, t, w = torch.randn(3, 5), torch.full((3,), -100), torch.rand(5)
    check(lambda a, t, w: F.cross_entropy(a, t, w, label_smoothing=0.1).isnan(), a, t, w)
