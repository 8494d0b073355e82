"""The negative log-likelihood of a log_softmax: one kernel each way, two numbers per row kept."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.devices import CPU, here
from tests.executor.jitted import check, jit, regions, saved
from tests.executor.judging import runs
from tests.pairwise import HALVES, pairwise
from thunder_fuser import fuser
from thunder_fuser.runtime.errors import IndexRangeError

ROWS, CLASSES = 43, 131
ON_EVERY_DEVICE = pytest.mark.usefixtures("device")
KERNELS = {"fuser_evaluator": False}
LOG_LIKELIHOODS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "nll_loss": lambda x, t: F.nll_loss(F.log_softmax(x.float(), -1), t, ignore_index=3),
    "gather": lambda x, t: F.log_softmax(x.float(), -1).gather(-1, t[:, None]),
    "squeezed": lambda x, t: F.log_softmax(x.float(), -1).gather(-1, t[:, None]).squeeze(-1),
    "narrow": lambda x, t: torch.gather(torch.log_softmax(x, -1), -1, t[:, None]),
}


def targets(ignored: int = 3) -> torch.Tensor:
    found = torch.randint(0, CLASSES, (ROWS,))
    found[5] = found[17] = ignored
    return found


@pytest.mark.parametrize(
    ("reduction", "dtype", "ignored"),
    pairwise(["mean", "sum", "none"], [torch.float32, *HALVES], [3, -100]),
)
def test_the_error_is_like_eagers(
    ignored: int, reduction: str, dtype: torch.dtype, device: torch.device
) -> None:
    t = targets(ignored)

    def loss(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        a = torch.log_softmax(x, -1)
        return F.nll_loss(a, t, ignore_index=ignored, reduction=reduction)

    jfn = jit(loss, **KERNELS)
    x = torch.randn(ROWS, CLASSES, dtype=dtype)
    cotangent = torch.randn(loss(x, t).shape, dtype=dtype)
    exact = runs(lambda x: loss(x, t), [x.double()], cotangent)
    ours = runs(lambda x: jfn(x, t.to(device)), [x], cotangent, device)
    eager = runs(lambda x: loss(x, t), [x], cotangent)
    for value, found, theirs in zip(exact, ours, eager, strict=True):
        rounding = torch.finfo(dtype).eps * value.abs().max()
        assert (found - value).abs().max() <= 2 * (theirs - value).abs().max() + 8 * rounding


@pytest.mark.parametrize("program", LOG_LIKELIHOODS)
def test_a_log_softmax_is_one_kernel_each_way_and_saves_two_numbers_per_row(
    program: str, device: torch.device
) -> None:
    x = torch.randn(ROWS, CLASSES, dtype=torch.bfloat16, device=device, requires_grad=True)
    jfn = jit(LOG_LIKELIHOODS[program], **KERNELS)
    jfn(x, targets().to(device)).sum().backward()
    facts = fuser.facts(jfn)
    assert facts.backward is not None
    assert (facts.forward.kernels, facts.backward.kernels, facts.whole.unclaimed_ops) == (1, 1, 0)
    kept = saved(jfn)
    assert (kept.pop("x"), kept.pop("t")) == (ROWS * CLASSES * 2, ROWS * 8)
    assert sorted(kept.values()) == [4] * (program == "nll_loss") + [ROWS * 4] * 2


@ON_EVERY_DEVICE
@pytest.mark.parametrize("ignored", [4, -100])
@pytest.mark.parametrize("shape", [(9,), (5, 9), (5, 9, 3), (2, 9, 3, 4)])
def test_classes_are_along_the_second_axis(shape: tuple[int, ...], ignored: int) -> None:
    t = torch.randint(0, 9, (*shape[:1], *shape[2:]) if len(shape) > 1 else ())
    t.view(-1)[0] = 0  # a mean of nothing is NaN
    for reduction in ("mean", "sum", "none"):
        x = torch.randn(shape, requires_grad=True)
        jfn = check(
            lambda x, t, r=reduction: F.nll_loss(x, t, ignore_index=ignored, reduction=r), x, t
        )
        assert len(regions(jfn).forward) == len(regions(jfn).backward) == 1


@ON_EVERY_DEVICE
def test_rows_that_are_all_ignored_have_no_mean() -> None:
    x, t = torch.randn(5, 7, device=here()), torch.full((5,), -100, device=here())
    assert jit(lambda x, t: F.nll_loss(x, t))(x, t).isnan()


@ON_EVERY_DEVICE
def test_the_class_to_ignore_is_torchs_where_none_is_given() -> None:
    x, t = torch.randn(ROWS, CLASSES, requires_grad=True), targets(-100)
    check(lambda x, t: F.nll_loss(x, t), x, t)


def test_infinite_logits_are_eagers(device: torch.device) -> None:
    x, t = torch.randn(4, 37), torch.tensor([1, 2, 3, 4])
    x[0, 5], x[1, 2] = -math.inf, -math.inf
    for program in LOG_LIKELIHOODS.values():
        cotangent = torch.ones_like(program(x, t))
        jfn = jit(program, **KERNELS)
        found = runs(lambda x, f=jfn: f(x, t.to(device)), [x], cotangent, device)
        for ours, eager in zip(
            found, runs(lambda x, f=program: f(x, t), [x], cotangent), strict=True
        ):
            torch.testing.assert_close(ours, eager, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("wrong", [-1, 131, 1 << 33])
def test_a_class_that_does_not_exist_is_an_error(wrong: int, device: torch.device) -> None:
    if device != CPU:
        pytest.skip("an assertion on the device ends the process")
    t = targets()
    t[7] = wrong
    jfn = jit(lambda x, t: F.nll_loss(x, t), **KERNELS)
    with pytest.raises(IndexRangeError):
        jfn(torch.randn(ROWS, CLASSES), t)


@ON_EVERY_DEVICE
def test_weights_stay_with_thunder() -> None:
    x, w = torch.randn(ROWS, CLASSES, requires_grad=True), torch.rand(CLASSES)
    check(lambda x, t, w: F.nll_loss(x, t, w, ignore_index=3), x, targets(), w)
