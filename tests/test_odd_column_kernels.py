"""Columns of images whose rows no vector divides, in vectors that lag behind them."""

from __future__ import annotations

import pytest
import torch

from tests.devices import ORDERS, copies
from tests.pairwise import with_halves
from tests.programs import (
    STRICT,
    check,
    cubin_of,
    cuda_kernels,
    fusion,
    like,
    plan_of,
    run_in_orders,
    total,
    whole,
)
from tests.test_beside_kernels import gradients
from tests.test_kept_kernels import is_close, normalised, softmax, spread
from tests.test_shared_column_kernels import clusters, softmax_gradient
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.kernel.kept_ir import KeptKernel
from thunder_fuser.runtime.plan import Plan
from thunder_fuser.schedule.odd_columns import OddAxes

pytestmark = [
    pytest.mark.usefixtures("device", "one_multiprocessor"),
    pytest.mark.sanitizer,
]
SHAPES = {
    "rows in every lane": (2, 64, 597),
    "few rows": (4, 32, 597),
    "images that begin inside vectors": (4, 35, 597),
    "a plane of words": (2, 37, 597),
    "a last tile of few vectors": (2, 34, 541),
    "blocks that share rows": (2, 512, 597),
    "fewer rows in the last block": (4, 515, 597),
}


def lags(plan: Plan) -> bool:
    """True for kernels whose vectors lag."""
    return all("const int lag" in text for text in plan.sources)


@pytest.mark.parametrize(("name", "dtype"), with_halves(list(SHAPES)))
def test_a_softmax_of_columns_is_as_in_torch(name: str, dtype: torch.dtype) -> None:
    x = (torch.randn(SHAPES[name]) * 4).to(dtype)
    (a,) = like(x)
    plan, results = run_in_orders(fusion([a], softmax(a)), x)
    assert plan.launches == 1
    assert lags(plan)
    for (found,) in results:
        assert is_close(found, x.double().softmax(1), x.softmax(1), 1.0)


@pytest.mark.parametrize("name", SHAPES)
def test_a_gradient_of_two_planes(name: str) -> None:
    shape = SHAPES[name]
    y, g = (torch.randn(shape) * 2).softmax(1).bfloat16(), torch.randn(shape).bfloat16()
    plan, results = run_in_orders(softmax_gradient(*like(y, g)), y, g)
    assert plan.launches == 1
    assert lags(plan)
    exact, eager = (
        y.to(d) * (g.to(d) - (y.to(d) * g.to(d)).sum(1, keepdim=True))
        for d in (torch.float64, torch.float32)
    )
    for (found,) in results:
        assert is_close(found, exact, eager.bfloat16(), float(exact.abs().max()))


@pytest.mark.parametrize("name", SHAPES)
def test_what_there_is_of_a_column_is_stored_once(name: str) -> None:
    x = (torch.randn(SHAPES[name]) + 3).bfloat16()
    weight, shift = torch.randn(x.shape[1]), torch.randn(x.shape[1])
    inputs = like(x, weight, shift)
    plan, results = run_in_orders(fusion(inputs, *normalised(*inputs)), x, weight, shift)
    assert plan.launches == 1
    assert lags(plan)
    exact = x.double()
    of_mean, of_variance = exact.mean(1), exact.var(1, correction=0)
    scaled = (exact - of_mean[:, None]) * (of_variance[:, None] + 1e-5).rsqrt()
    wanted = scaled * weight[:, None] + shift[:, None]
    for found, mean, variance in results:
        for got, want in ((mean, of_mean), (variance, of_variance)):
            torch.testing.assert_close(got.double().flatten(), want.flatten(), atol=0, rtol=1e-5)
        assert is_close(found, wanted, wanted.bfloat16(), wanted.abs().max().item())


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_read_of_a_column_is_its_own(name: str) -> None:
    """A vector that begins in front of the row reads nothing there."""
    shape = SHAPES[name]
    x, scale = whole(*shape, dtype=torch.bfloat16), whole(shape[0], shape[2])
    a, s = like(x, scale)
    wide = call("cast", a, dtype=s.dtype)
    scaled = call("mul", wide, spread(s, wide))
    top = call("max", scaled, dims=(1,))
    below = call("sub", scaled, spread(top, scaled))
    plan = check(fusion([a, s], call("cast", below, dtype=a.dtype), top), x, scale)
    assert lags(plan)


@pytest.mark.parametrize("name", ["rows in every lane", "a plane of words"])
def test_sums_that_are_stored_alone_are_of_the_same_vectors(name: str) -> None:
    (a,) = like(x := whole(*SHAPES[name], dtype=torch.bfloat16))
    wide = call("cast", a, dtype=DataType.Float)
    results = [call("max", wide, dims=(1,)), total(wide, 1)]
    plan = check(fusion([a], *results), x, orders=ORDERS)
    assert plan.launches == 1
    assert lags(plan)


def test_long_columns_of_which_sums_are_stored_are_walked() -> None:
    (a,) = like(x := whole(*SHAPES["blocks that share rows"], dtype=torch.bfloat16))
    assert not lags(check(fusion([a], call("max", a, dims=(1,))), x))


def test_infinities_and_nans_stay_in_their_columns() -> None:
    x = torch.randn(2, 64, 597).bfloat16()
    x[0, :, 5] = -torch.inf
    x[1, 3:, 7] = -torch.inf
    x[1, 9, 596] = torch.inf
    x[0, 0, 0] = torch.nan
    (a,) = like(x)
    plan = plan_of(fusion([a], softmax(a)), *copies([x]), options=STRICT)
    assert lags(plan)
    (found,) = plan.run(*copies([x]))
    torch.testing.assert_close(found.cpu(), x.softmax(1), equal_nan=True)


def test_blocks_share_long_columns() -> None:
    (a,) = like(x := torch.randn(SHAPES["blocks that share rows"]).bfloat16())
    plan = plan_of(fusion([a], softmax(a)), *copies([x]), options=STRICT)
    assert clusters(plan) == ["4"]


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((3, 63, 597), torch.bfloat16),
        ((4, 64, 133), torch.bfloat16),
        ((2, 64, 9), torch.bfloat16),
        ((4, 28, 597), torch.bfloat16),
        ((2, 64, 597), torch.float32),
    ],
    ids=["a plane that ends inside a vector", "half a tile", "short rows", "few rows", "words"],
)
def test_others_are_read_one_by_one(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    (a,) = like(x := torch.randn(shape).to(dtype))
    assert not lags(plan_of(fusion([a], softmax(a)), *copies([x]), options=STRICT))


def test_what_is_aligned_less_is_read_one_by_one() -> None:
    x = torch.randn(2 * 64 * 597 + 1).bfloat16()[1:].view(2, 64, 597)
    (a,) = like(x)
    assert not lags(plan_of(fusion([a], softmax(a)), *copies([x]), options=STRICT))


@pytest.mark.parametrize(
    ("channels", "is_gradient"), [(48, False), (48, True), (320, False), (320, True), (512, True)]
)
def test_nothing_is_spilled_on_a_gpu(channels: int, is_gradient: bool) -> None:
    shape = (2**25 // (channels * 1517), channels, 37 * 41)
    x, y = (torch.empty(shape, dtype=torch.bfloat16) for _ in range(2))
    a, b = like(x, y)
    given = (softmax_gradient(a, b), x, y) if is_gradient else (fusion([a], softmax(a)), x)
    _, (kernel,) = cuda_kernels(*given)
    assert isinstance(kernel, KeptKernel)
    assert isinstance(kernel.axes, OddAxes)
    assert cubin_of(kernel).spill_bytes == 0


BESIDE = {
    "a tile after another": (6, 64, 597),
    "images that begin inside vectors": (8, 37, 597),
    "blocks that share rows": (3, 512, 597),
    "fewer rows in the last block": (4, 515, 597),
}


@pytest.mark.usefixtures("small_planes")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", BESIDE)
def test_sums_over_all_columns_are_beside_them(name: str, dtype: torch.dtype) -> None:
    x, y = (whole(*BESIDE[name], dtype=dtype) for _ in range(2))
    plan = check(gradients(*like(x, y), 1), x, y, orders=ORDERS)
    assert "const int lag" in plan.sources[0]
    assert "_sum[" in plan.sources[0]
    assert plan.launches == 2
