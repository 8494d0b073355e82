"""Cross entropy as one region each way, the log-probabilities never in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F

from tests.devices import CPU, ORDERS, reordering
from tests.executor.jitted import check, jit, regions, saved
from tests.executor.judging import runs
from tests.pairwise import pairwise
from thunder_fuser.executor.explain import regions_of
from thunder_fuser.runtime.errors import IndexRangeError

ROWS, CLASSES = 43, 131
REDUCTIONS = ["mean", "sum", "none"]
SIZES = [
    (torch.float32, 131),
    (torch.float32, 9004),
    (torch.bfloat16, 131),
    (torch.bfloat16, 18003),
]
ON_EVERY_DEVICE = pytest.mark.usefixtures("device")
KERNELS = {"fuser_evaluator": False}


def targets() -> torch.Tensor:
    found = torch.randint(0, CLASSES, (ROWS,))
    found[5] = found[17] = -100
    return found


@pytest.mark.parametrize(
    ("smoothing", "reduction", "dtype"),
    pairwise([0.0, 0.1, 1.0], REDUCTIONS, [torch.float32, torch.bfloat16]),
)
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


@pytest.mark.sanitizer
@pytest.mark.parametrize(
    ("size", "reduction", "smoothing"), pairwise(SIZES, REDUCTIONS, [0.0, 0.1])
)
def test_the_forward_is_one_launch_also_where_rows_are_streamed(
    size: tuple[torch.dtype, int], reduction: str, smoothing: float, device: torch.device
) -> None:
    dtype, classes = size
    x, t = torch.randn(ROWS, classes, dtype=dtype), torch.randint(0, classes, (ROWS,))
    t[5] = t[17] = 3

    def program(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x, t, ignore_index=3, reduction=reduction, label_smoothing=smoothing)

    exact, eager = program(x.double(), t), program(x, t).double()
    rounding = torch.finfo(dtype).eps * exact.abs().max()
    allowed = 2 * (eager - exact).abs().max() + 4 * rounding
    jfn, saving = jit(program, **KERNELS), jit(program, **KERNELS)
    with reordering() as reordered:
        for order in ORDERS:
            x.requires_grad_(False)
            found = reordered(jfn, order)(x.to(device), t.to(device)).cpu()
            assert (found.double() - exact).abs().max() <= allowed
            x.requires_grad_()
            again = reordered(saving, order)(x.to(device), t.to(device)).detach().cpu()
            assert torch.equal(again, found)
    assert launches(jfn) == launches(saving) == 1


def launches(jfn: Callable[..., object]) -> int:
    """Of the last forward."""
    forward = regions_of(jfn)[0].last_used
    assert forward is not None
    return forward.leaf.program.plans[-1].launches


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("ignored", [(), (0,), range(5)], ids=["none", "one", "all"])
def test_ignored_rows_are_eagers(
    ignored: Sequence[int], reduction: str, device: torch.device
) -> None:
    """The mean over no row is not a number."""
    x, t = torch.randn(5, 8204), torch.randint(0, 8204, (5,))
    t[list(ignored)] = -100
    jfn = jit(lambda x, t: F.cross_entropy(x, t, reduction=reduction), **KERNELS)
    found, wanted = (
        jfn(x.to(device), t.to(device)).cpu(),
        F.cross_entropy(x, t, reduction=reduction),
    )
    torch.testing.assert_close(found, wanted, equal_nan=True)
    assert launches(jfn) == 1


@pytest.mark.parametrize("rows", [1, 601, 12007])
def test_rows_of_few_classes_are_summed_in_bundles_call_after_call(
    rows: int, device: torch.device
) -> None:
    x, t = torch.randn(rows, 37), torch.randint(0, 37, (rows,))
    t[1::7] = -100
    exact, eager = F.cross_entropy(x.double(), t), F.cross_entropy(x, t).double()
    jfn = jit(lambda x, t: F.cross_entropy(x, t), **KERNELS)
    with reordering() as reordered:
        for order in ORDERS:
            ordered, y, k = reordered(jfn, order), x.to(device, copy=True), t.to(device, copy=True)
            found = [ordered(y, k).cpu().double() for _ in range(2)]
            assert torch.equal(*found)
            assert (found[0] - exact).abs() <= 2 * (eager - exact).abs() + 4e-7 * exact.abs()
            y[rows // 2, 5], k[rows // 2] = -math.inf, 5
            assert ordered(y, k) == F.cross_entropy(y, k) == math.inf
            y[rows // 2, 6] = math.nan
            assert ordered(y, k).isnan()
            k[:] = -100
            assert ordered(y, k).isnan()
    assert launches(jfn) == 1


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("classes", [37, 600, 20011])
def test_infinite_logits_are_eagers(classes: int, smoothing: float, device: torch.device) -> None:
    """A loss and a gradient that are no numbers: inf - inf stands in the row."""
    x, t = torch.randn(6, classes), torch.randint(6, classes, (6,))
    x[0, 3], x[1, 4], x[2] = math.inf, -math.inf, -math.inf
    x[3, int(t[3])] = math.inf

    def program(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x, t, reduction="none", label_smoothing=smoothing)

    found = losses_and_gradient(jit(program, **KERNELS), x.to(device), t.to(device))
    for got, want in zip(found, losses_and_gradient(program, x, t), strict=True):
        torch.testing.assert_close(got, want, equal_nan=True)


def losses_and_gradient(
    program: Callable[..., torch.Tensor], x: torch.Tensor, t: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    x = x.detach().requires_grad_()
    loss = program(x, t)
    (gradient,) = torch.autograd.grad(loss, x, torch.ones_like(loss))
    return loss.detach().cpu(), gradient.cpu()


@ON_EVERY_DEVICE
def test_ignoring_another_class_and_extreme_logits() -> None:
    x = torch.randn(ROWS, CLASSES)
    x[3, 7], x[4] = float("-inf"), 1e30
    x.requires_grad_()
    t = targets().clamp(min=0)
    jfn = check(lambda x, t: F.cross_entropy(x, t, ignore_index=9, reduction="none"), x, t)
    assert len(regions(jfn).forward) == 1


@pytest.mark.parametrize("differentiated", [False, True])
@pytest.mark.parametrize("shape", [(5, 37), (5, 37, 3)])
@pytest.mark.parametrize("wrong", [-1, -100, 37, 1 << 33])
def test_a_class_that_does_not_exist_is_an_error(
    wrong: int, shape: tuple[int, ...], differentiated: bool, device: torch.device
) -> None:
    if device != CPU:
        pytest.skip("an assertion on the device ends the process")
    t = torch.randint(37, (shape[0], *shape[2:]))
    t[3] = wrong
    jfn = jit(lambda x, t: F.cross_entropy(x, t, ignore_index=0), **KERNELS)
    with pytest.raises(IndexRangeError, match=f"index {wrong} is out of range .* extent 37"):
        jfn(torch.randn(shape, requires_grad=differentiated), t)


@ON_EVERY_DEVICE
def test_classes_of_a_plane_are_not_padded_where_nothing_is_differentiated() -> None:
    x, t = torch.randn(5, 37, 3), torch.randint(37, (5, 3))
    jfn = check(lambda x, t: F.cross_entropy(x, t), x, t)
    (forward,) = regions(jfn).forward
    assert "gather" in forward
    assert "pad" not in forward


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


def test_smoothing_keeps_the_digits_of_logits_far_from_zero() -> None:
    x, t = torch.randn(64, 50) + 1000, torch.randint(50, (64,))

    def loss(x: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x, t, label_smoothing=0.1)

    torch.testing.assert_close(jit(loss)(x).double(), loss(x.double()), rtol=3e-6, atol=0)
