"""Rows that clusters of blocks share: values against fp64 beside eager's, in every thread order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import cycle

import pytest
import thunder
import torch
import torch.nn.functional as F

from tests.devices import ORDERS
from tests.executor.judging import Program, judged
from thunder_fuser import fuser, pipeline
from thunder_fuser.executor.explain import regions_of
from thunder_fuser.kernel.source import Source
from thunder_fuser.runtime.targets import target_for

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
INFINITE = float("inf")


def below_logsumexp(x: torch.Tensor) -> torch.Tensor:
    return x - torch.logsumexp(x, -1, keepdim=True)


def standardised(x: torch.Tensor) -> torch.Tensor:
    return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)


def rms_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, w.shape, w, 1e-5)


def layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, w.shape, w, b)


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


# Lengths that no number of blocks, threads or lanes divides, and odd ones.
CASES: dict[str, tuple[Program, torch.dtype, int, int]] = {
    "softmax": (softmax, BF16, 65536, 1),
    "softmax in halves": (softmax, F16, 40008, 1),
    "softmax in floats": (softmax, F32, 33004, 1),
    "softmax of an odd length": (softmax, BF16, 50257, 1),
    "softmax of a length that lanes divide": (softmax, F32, 36864, 1),
    "softmax that fills a cluster": (softmax, F32, 262140, 1),
    "softmax of all elements": (
        lambda x: torch.softmax(x.flatten(), -1).reshape(x.shape),
        F32,
        22000,
        1,
    ),
    "log_softmax": (lambda x: torch.log_softmax(x, -1), F32, 35003, 1),
    "below logsumexp": (below_logsumexp, BF16, 34824, 1),
    "rms_norm": (rms_norm, BF16, 40040, 2),
    "rms_norm of an odd length": (rms_norm, F16, 33333, 2),
    "layer_norm": (layer_norm, F32, 33000, 3),
    "layer_norm in bf16": (layer_norm, BF16, 70000, 3),
    "standardised": (standardised, F32, 50004, 1),
}


def clusters(jfn: Callable[..., object]) -> list[int]:
    """How many blocks share a row in each kernel of the last call, forward and backward."""
    return [kernel.cluster for kernel in kernels(jfn)]


def kernels(jfn: Callable[..., object]) -> list[Source]:
    """Of the last call, forward and backward."""
    used = [region.last_used for region in regions_of(jfn)]
    plans = [plan for fd in used if fd is not None for plan in fd.leaf.program.plans[-1:]]
    return [kernel for plan in plans for kernel in plan.kernels if kernel is not None]


@pytest.mark.sanitizer
@pytest.mark.parametrize("case", CASES)
def test_errors_are_like_those_of_eager_and_every_order_gives_the_same_bits(
    case: str, device: torch.device
) -> None:
    program, dtype, columns, count = CASES[case]
    args = [torch.randn(3, columns).to(dtype), *(torch.randn(columns).to(dtype) for _ in "wb")]
    args = args[:count]
    cotangent = torch.randn(3, columns)
    if program is below_logsumexp:  # of the maximum's gradient Thunder rounds sums that cancel
        cotangent -= cotangent.mean(-1, keepdim=True)
    cotangent = cotangent.to(dtype)
    jfn = judged(program, args, cotangent, device)
    forward, *_ = clusters(jfn)
    assert forward > 1


def added_norm(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    h = x + y
    return h + F.rms_norm(h, w.shape, w)


def bare_norm(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x + b, b.shape)


# Gradients with sums down the columns, of rows that one block does not hold: lengths that fill
# whole vectors, or rows that begin in every second lane, or in any. Rows are a power
# of two, or three or nine more: 67, 73, 131 and 137 are prime.
WALKED: dict[str, tuple[Program, torch.dtype, int, str]] = {
    "rms_norm": (rms_norm, BF16, 24704, "xw"),
    "rms_norm of an odd length": (rms_norm, BF16, 24707, "xw"),
    "rms_norm in halves": (rms_norm, F16, 25002, "xw"),
    "rms_norm in floats": (rms_norm, F32, 14501, "xw"),
    "layer_norm": (layer_norm, BF16, 16904, "xwb"),
    "layer_norm in halves": (layer_norm, F16, 17002, "xwb"),
    "layer_norm of an odd length": (layer_norm, F32, 14503, "xwb"),
    "layer_norm without weights": (bare_norm, BF16, 24707, "xb"),
    "rms_norm of a sum": (added_norm, BF16, 24710, "xyw"),
    "rms_norm of a sum in floats": (added_norm, F32, 14502, "xyw"),
}


@pytest.mark.usefixtures("few_multiprocessors")
@pytest.mark.parametrize(
    ("case", "more"),
    [
        pytest.param(case, more, marks=[pytest.mark.sanitizer] if more == 3 else [])
        for case, more in zip(WALKED, cycle((3, 9, 0)), strict=False)
    ],
)
def test_clusters_walk_rows_with_sums_down_their_columns(
    case: str, more: int, device: torch.device
) -> None:
    program, dtype, columns, kinds = WALKED[case]
    rows = (64 if dtype is F32 else 128) + more
    args = [torch.randn(*([rows] if kind in "xy" else []), columns).to(dtype) for kind in kinds]
    cotangent = torch.randn(rows, columns).to(dtype)
    jfn = judged(program, args, cotangent, device)
    _, walking, _ = kernels(jfn)  # forward; backward, and the sums of its parts
    assert walking.cluster > 1
    assert "tf::expect_mail(mail[turn" in walking.text  # turn after turn
    assert ("store_within" in walking.text) == (columns * dtype.itemsize % 16 > 0)


@pytest.mark.sanitizer
@pytest.mark.no_racecheck
@pytest.mark.usefixtures("few_multiprocessors")
def test_sixteen_blocks_walk_rows_that_eight_do_not_hold(device: torch.device) -> None:
    rows, columns = 37, 140004
    args = [torch.randn(rows, columns), *torch.randn(2, columns)]
    args, cotangent = [t.to(BF16) for t in args], torch.randn(rows, columns).to(BF16)
    jfn = judged(layer_norm, args, cotangent, device)
    assert 16 in clusters(jfn)


@pytest.mark.sanitizer
@pytest.mark.no_racecheck
@pytest.mark.usefixtures("few_multiprocessors")
@pytest.mark.parametrize(("dtype", "columns"), [(F32, 480_004), (F16, 917_509)], ids=str)
def test_sixteen_blocks_keep_rows_that_eight_do_not(
    dtype: torch.dtype, columns: int, device: torch.device
) -> None:
    """Of the gradient's operands one is in registers."""
    x, cotangent = (torch.randn(2, columns).to(dtype) for _ in "xy")
    jfn = judged(softmax, [x], cotangent, device)
    assert clusters(jfn) == [16, 16]


@pytest.mark.sanitizer
@pytest.mark.parametrize("case", ["rms_norm", "layer_norm"])
@pytest.mark.parametrize("columns", [66_008, 65_539])
def test_a_gradient_whose_sums_no_block_has_is_two_launches(
    case: str, columns: int, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sums of rows, then the sums of columns beside what follows from those of rows."""
    large = replace(target_for(device), multiprocessors=132)
    monkeypatch.setattr(pipeline, "target_for", lambda device: large)
    program, count = {"rms_norm": (rms_norm, 2), "layer_norm": (layer_norm, 3)}[case]
    args = [torch.randn(33, columns), *torch.randn(2, columns)][:count]
    jfn = judged(program, [t.to(BF16) for t in args], torch.randn(33, columns).to(BF16), device)
    _, of_rows, of_columns = kernels(jfn)
    assert (of_rows.tickets, of_rows.cluster, of_columns.cluster) == (33, 1, 1)


@pytest.mark.sanitizer
def test_infinite_and_missing_numbers_are_eagers(device: torch.device) -> None:
    x = torch.randn(7, 33004)
    x[0], x[1, 7], x[2, -1], x[3, 5000] = -INFINITE, INFINITE, float("nan"), -INFINITE
    x[4, :-1], x[5, 1:] = -INFINITE, -INFINITE
    jfn = thunder.jit(softmax, executors=[fuser])
    found = jfn(x.to(device)).cpu()
    torch.testing.assert_close(found, torch.softmax(x, -1), rtol=1e-5, atol=1e-9, equal_nan=True)
    (cluster,) = clusters(jfn)
    assert cluster > 1


@pytest.mark.sanitizer
def test_a_variance_is_of_the_differences_from_the_mean(device: torch.device) -> None:
    x = torch.randn(3, 33004) + 3000
    found = thunder.jit(standardised, executors=[fuser])(x.to(device)).cpu().double()
    exact = standardised(x.double())
    rounding = (
        torch.finfo(F32).eps * x.abs().max()
    )  # of the mean; a difference of squares loses all
    eager = (standardised(x) - exact).abs().max()
    assert (found - exact).abs().max() <= 2 * eager + 2 * rounding


@pytest.mark.sanitizer
@pytest.mark.parametrize("order", ORDERS)
def test_the_first_of_several_maxima_is_found_beside_whole_rows(
    order: str, device: torch.device
) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x - x.amax(-1, keepdim=True), torch.argmax(x, -1)

    x = (torch.randn(3, 70_000) * 4).round()  # a few maxima in each row, in blocks of their own
    jfn = thunder.jit(program, executors=[fuser], fuser_thread_order=order)
    below, place = (t.cpu() for t in jfn(x.to(device)))
    assert torch.equal(below, x - x.amax(-1, keepdim=True))
    assert torch.equal(place, torch.argmax(x, -1))
    assert max(clusters(jfn)) > 1
