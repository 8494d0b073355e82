"""Losses that are opaque to Thunder: values, gradients, and one kernel each way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.executor.jitted import check, jit, regions
from tests.executor.judging import runs
from tests.pairwise import pairwise
from thunder_fuser import explain
from thunder_fuser.executor.losses import LOSSES

KERNELS = {"fuser_evaluator": False}
ON_EVERY_DEVICE = pytest.mark.usefixtures("device")
SHAPE = (7, 131)
OPTIONS: dict[str, dict[str, Any]] = {
    "binary_cross_entropy_with_logits": {},
    "huber_loss": {"delta": 0.7},
    "kl_div": {"log_target": True},
    "l1_loss": {},
    "smooth_l1_loss": {"beta": 0.3},
}
CASES = [*OPTIONS.items(), ("kl_div", {}), ("huber_loss", {}), ("smooth_l1_loss", {})]


def operands(name: str, options: dict[str, Any], dtype: torch.dtype) -> list[torch.Tensor]:
    """Numbers of few digits, so that some are zero and some equal."""
    x, t = ((torch.randn(SHAPE) * 4).round() / 4 for _ in range(2))
    is_share = name == "binary_cross_entropy_with_logits" or (options == {} and name == "kl_div")
    return [x.to(dtype), (t.sigmoid() if is_share else t).to(dtype)]


@pytest.mark.parametrize(
    ("case", "reduction", "dtype"),
    pairwise(CASES, ["mean", "sum", "none"], [torch.float32, torch.bfloat16]),
)
def test_the_error_is_like_eagers(
    case: tuple[str, dict[str, Any]], reduction: str, dtype: torch.dtype, device: torch.device
) -> None:
    name, options = case

    def program(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return getattr(F, name)(x * 1, t * 1, reduction=reduction, **options)

    given = operands(name, options, dtype)
    cotangent = torch.randn(program(*given).shape, dtype=dtype)
    exact = runs(program, [x.double() for x in given], cotangent)
    ours = runs(jit(program, **KERNELS), given, cotangent, device)
    eager = runs(program, given, cotangent)
    for value, found, theirs in zip(exact, ours, eager, strict=True):
        rounding = torch.finfo(dtype).eps * value.abs().max()
        assert (found - value).abs().max() <= 2 * (theirs - value).abs().max() + 8 * rounding


@ON_EVERY_DEVICE
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: str(loss.__name__))
def test_a_loss_joins_its_region_each_way(loss: Callable[..., torch.Tensor]) -> None:
    x, t = torch.randn(SHAPE, requires_grad=True), torch.rand(SHAPE)
    jfn = check(lambda x, t: loss(torch.sin(x), torch.cos(t)), x, t, **KERNELS)
    assert "outside:" not in explain(jfn)
    found = regions(jfn)
    assert (len(found.forward), len(found.backward)) == (1, 1)


@ON_EVERY_DEVICE
def test_a_divergence_of_log_softmaxes_is_a_kernel_each_way() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        student, teacher = F.log_softmax(x, -1), F.log_softmax(y, -1)
        return F.kl_div(student, teacher, log_target=True, reduction="batchmean")

    x, y = torch.randn(43, 131, requires_grad=True), torch.randn(43, 131)
    jfn = check(program, x, y, **KERNELS)
    assert explain(jfn).count("segment 0 (kernel; the region)") == 2


@pytest.mark.parametrize("weights", ["weight", "pos_weight", "weight pos_weight"])
@pytest.mark.parametrize("shape", [SHAPE, SHAPE[1:], (7, 1)])
def test_weights_of_classes(weights: str, shape: tuple[int, ...], device: torch.device) -> None:
    options = {name: torch.rand(shape) * 3 for name in weights.split()}

    def program(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        moved = {name: w.to(x.device, x.dtype) for name, w in options.items()}
        return F.binary_cross_entropy_with_logits(x * 1, t * 1, **moved)

    given = [torch.randn(SHAPE), torch.rand(SHAPE)]
    cotangent = torch.randn(())
    exact = runs(program, [x.double() for x in given], cotangent)
    kept = {name: w.to(device) for name, w in options.items()}
    jfn = jit(lambda x, t: F.binary_cross_entropy_with_logits(x * 1, t * 1, **kept), **KERNELS)
    torch.testing.assert_close(runs(jfn, given, cotangent, device), exact, rtol=1e-5, atol=1e-6)
    assert "no rule for" not in explain(jfn)


@ON_EVERY_DEVICE
@pytest.mark.parametrize("extreme", [-1e4, -100.0, 0.0, 100.0, 1e4])
def test_logits_of_any_size(extreme: float) -> None:
    x = torch.full((5,), extreme, requires_grad=True)
    t = torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0])
    check(lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction="none"), x, t)


@ON_EVERY_DEVICE
@pytest.mark.parametrize(
    "program",
    [
        lambda x, t: F.smooth_l1_loss(x, t, beta=0.0),
        lambda x, t: F.l1_loss(x.double(), t),
    ],
    ids=["no smooth part", "two types"],
)
def test_the_rest_is_left_to_torch(program: Callable[..., torch.Tensor]) -> None:
    x, t = torch.randn(SHAPE, requires_grad=True), torch.rand(SHAPE)
    assert "no rule for" in explain(check(program, x, t))
