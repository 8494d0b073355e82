"""Losses with weights of classes, smoothed ones of planes, and what they ignore: torch's values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.devices import CPU, here
from tests.executor.jitted import check, jit
from tests.pairwise import pairwise

pytestmark = pytest.mark.usefixtures("device")
Program = Callable[..., Any]

SHAPES = {"rows": (7, 5), "planes": (2, 5, 3, 4), "lines": (2, 5, 3), "one row": (5,)}


def _classes(shape: tuple[int, ...], ignored: int) -> torch.Tensor:
    """Some to be ignored among others; of one row another."""
    counted = torch.tensor([c for c in range(5) if c != ignored])
    target = counted[
        torch.randint(0, len(counted), shape[:1] + shape[2:] if len(shape) > 1 else ())
    ]
    if target.ndim:
        target[0] = ignored
    return target


@pytest.mark.parametrize(
    ("name", "ignored", "reduction"),
    pairwise(list(SHAPES), [-100, 7, 2], ["mean", "sum", "none"]),
)
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


def test_of_doubles() -> None:
    a = torch.randn(6, 5, 3, dtype=torch.float64, requires_grad=True)
    t, w = torch.randint(0, 5, (6, 3)), torch.rand(5, dtype=torch.float64)
    check(lambda a, t, w: F.cross_entropy(a, t, w, label_smoothing=0.1), a, t, w)


def test_errors_in_bf16_are_like_those_of_eager() -> None:
    """Of gradients that nearly cancel eager's is as far from the exact one as they are large."""
    t = torch.randint(0, 5, (6, 3))

    def loss(a: torch.Tensor, t: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(a, t, w, label_smoothing=0.1)

    def runs(
        fn: Callable[..., Any], dtype: torch.dtype, device: torch.device = CPU
    ) -> list[torch.Tensor]:
        given = logits.to(device, dtype).requires_grad_()
        result = fn(given, t.to(device), weights.to(device, dtype))
        (gradient,) = torch.autograd.grad(result, given)
        return [result.detach().cpu().double(), gradient.cpu().double()]

    logits, weights = torch.randn(6, 5, 3).bfloat16(), torch.rand(5).bfloat16()
    exact, eager = runs(loss, torch.float64), runs(loss, torch.bfloat16)
    found = runs(jit(loss), torch.bfloat16, here())
    for ours, theirs, value in zip(found, eager, exact, strict=True):
        rounding = torch.finfo(torch.bfloat16).eps * value.abs().max()
        assert (ours - value).abs().max() <= 2 * (theirs - value).abs().max() + rounding


def test_weights_of_bytes() -> None:
    t = torch.tensor([0, 1, 255, 4], dtype=torch.uint8)
    a, w = torch.randn(4, 5, requires_grad=True), torch.rand(5)
    check(lambda a, t, w: F.cross_entropy(a, t, w, ignore_index=255), a, t, w)


def test_nothing_counted_is_no_number() -> None:
    a, t, w = torch.randn(3, 5), torch.full((3,), -100), torch.rand(5)
    check(lambda a, t, w: F.cross_entropy(a, t, w, label_smoothing=0.1).isnan(), a, t, w)
