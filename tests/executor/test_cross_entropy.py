"""Cross entropy as one region each way, the log-probabilities never in memory."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.executor.jitted import check, jit, regions, saved
from tests.executor.test_norms import runs

ROWS, CLASSES = 43, 131
ON_EVERY_DEVICE = pytest.mark.usefixtures("device")
KERNELS = {"fuser_evaluator": False}


def targets() -> torch.Tensor:
    found = torch.randint(0, CLASSES, (ROWS,))
    found[5] = found[17] = -100
    return found


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_error_is_like_eagers(
    smoothing: float, reduction: str, dtype: torch.dtype, device: torch.device
) -> None:
    t = targets()

    def loss(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x, t, reduction=reduction, label_smoothing=smoothing)

    def program(x: torch.Tensor) -> torch.Tensor:
        return loss(x, t)

    def traced(x: torch.Tensor) -> torch.Tensor:
        return jfn(x, t.to(device))

    jfn = jit(loss, **KERNELS)
    x = torch.randn(ROWS, CLASSES, dtype=dtype)
    cotangent = torch.randn(program(x).shape, dtype=dtype)
    exact = runs(program, [x.double()], cotangent)
    for value, ours, theirs in zip(
        exact, runs(traced, [x], cotangent, device), runs(program, [x], cotangent), strict=True
    ):
        rounding = torch.finfo(dtype).eps * value.abs().max()
        assert (ours - value).abs().max() <= 2 * (theirs - value).abs().max() + 8 * rounding


@ON_EVERY_DEVICE
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_it_is_one_region_each_way_and_saves_the_logits_and_two_numbers_per_row(
    smoothing: float,
) -> None:
    x = torch.randn(ROWS, CLASSES, requires_grad=True)
    jfn = check(lambda x, t: F.cross_entropy(x, t, label_smoothing=smoothing), x, targets())
    found = regions(jfn)
    assert len(found.forward) == len(found.backward) == 1
    kept = saved(jfn)
    assert (kept.pop("x"), kept.pop("t")) == (ROWS * CLASSES * 4, ROWS * 8)
    assert sorted(kept.values()) == [4, ROWS * 4, ROWS * 4]


@ON_EVERY_DEVICE
def test_ignoring_another_class_and_extreme_logits() -> None:
    x = torch.randn(ROWS, CLASSES)
    x[3, 7], x[4] = float("-inf"), 1e30
    x.requires_grad_()
    t = targets().clamp(min=0)
    jfn = check(lambda x, t: F.cross_entropy(x, t, ignore_index=9, reduction="none"), x, t)
    assert len(regions(jfn).forward) == 1


def test_a_class_that_does_not_exist_makes_the_loss_nan() -> None:
    jfn = jit(lambda x, t: F.cross_entropy(x, t))
    assert jfn(torch.randn(3, 5), torch.tensor([1, 5, 2])).isnan()


@ON_EVERY_DEVICE
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_weights_stay_with_thunder(smoothing: float) -> None:
    def program(x: torch.Tensor, t: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x, t, w, label_smoothing=smoothing)

    check(program, torch.randn(ROWS, CLASSES), targets().clamp(min=0), torch.rand(CLASSES))


@ON_EVERY_DEVICE
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_probabilities_as_targets_have_thunders_gradient(smoothing: float) -> None:
    def program(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x, t, label_smoothing=smoothing)

    t = torch.softmax(torch.randn(ROWS, CLASSES), 1)
    check(program, torch.randn(ROWS, CLASSES, requires_grad=True), t)
