"""Columns too long for a block, whose rows the blocks of a cluster share."""

from __future__ import annotations

import pytest
import torch

from tests.devices import ORDERS, copies
from tests.programs import check, clusters, cuda_kernels, fusion, like, plan_of, whole
from tests.test_beside_kernels import gradients
from tests.test_kept_kernels import is_close, normalised, softmax, softmax_gradient
from thunder_fuser.kernel.kept_ir import KeptKernel
from thunder_fuser.options import Options

pytestmark = [
    pytest.mark.usefixtures("device", "one_multiprocessor"),
    pytest.mark.sanitizer,
]
LONG = {  # a shape, and blocks that share rows for a softmax and for its gradient
    "an equal part each": ((2, 1024, 128), 4, 8),
    "fewer rows in the last block": ((1, 577, 256), 4, 4),
    "columns that no tile divides": ((2, 1025, 72), 8, 8),
    "elements that are no vectors": ((2, 1031, 66), 4, 8),
    "eight blocks": ((1, 4091, 64), 8, 8),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", LONG)
def test_blocks_of_a_cluster_share_rows(name: str, order: str) -> None:
    shape, blocks, _ = LONG[name]
    x = torch.randn(shape).bfloat16() * 4
    (a,) = like(x)
    options = Options(thread_order=order)
    plan = plan_of(fusion([a], softmax(a)), *copies([x]), options=options)
    assert (plan.launches, clusters(plan)) == (1, [str(blocks)])
    (found,) = plan.run(*copies([x]))
    assert is_close(found, x.double().softmax(1), x.softmax(1), 1.0)


@pytest.mark.parametrize("name", LONG)
def test_a_gradient_shares_them_too(name: str) -> None:
    shape, _, blocks = LONG[name]
    y, g = (torch.randn(shape) * 2).softmax(1).bfloat16(), torch.randn(shape).bfloat16()
    plan = plan_of(softmax_gradient(*like(y, g)), *copies([y, g]), options=Options())
    assert (plan.launches, clusters(plan)) == (1, [str(blocks)])
    (found,) = plan.run(*copies([y, g]))
    exact, eager = (
        y.to(d) * (g.to(d) - (y.to(d) * g.to(d)).sum(1, keepdim=True))
        for d in (torch.float64, torch.float32)
    )
    assert is_close(found, exact, eager.bfloat16(), float(exact.abs().max()))


@pytest.mark.usefixtures("small_planes")
@pytest.mark.parametrize("shape", [(6, 1500, 64), (5, 1493, 96)], ids=str)
def test_sums_over_all_columns_are_beside_them(shape: tuple[int, ...]) -> None:
    x, y = (whole(*shape, dtype=torch.bfloat16) for _ in range(2))
    plan = check(gradients(*like(x, y), 1), x, y, orders=ORDERS)
    assert clusters(plan) == ["8"]
    assert "_sum[" in plan.sources[0]


def test_infinities_and_nans_are_as_in_torch() -> None:
    x = torch.randn(2, 1025, 72).bfloat16()
    x[0, :, 5] = -torch.inf
    x[1, 3:, 7] = -torch.inf
    x[1, 1024, 2] = torch.inf
    x[0, 700, 11] = torch.nan
    (a,) = like(x)
    plan = plan_of(fusion([a], softmax(a)), *copies([x]), options=Options())
    assert clusters(plan)
    (found,) = plan.run(*copies([x]))
    torch.testing.assert_close(found.cpu(), x.softmax(1), equal_nan=True)


def test_results_of_a_column_are_stored_once() -> None:
    x, weight, shift = torch.randn(2, 1025, 72) + 3, torch.randn(1025), torch.randn(1025)
    a, w, b = like(x, weight, shift)
    plan = plan_of(fusion([a, w, b], *normalised(a, w, b)), *copies([x, weight, shift]))
    found, mean, variance = plan.run(*copies([x, weight, shift]))
    exact = x.double()
    of_mean, of_variance = exact.mean(1), exact.var(1, correction=0)
    for got, want in ((mean, of_mean), (variance, of_variance)):
        torch.testing.assert_close(got.cpu().double().flatten(), want.flatten(), atol=0, rtol=1e-6)
    scaled = (exact - of_mean[:, None]) * (of_variance[:, None] + 1e-5).rsqrt()
    wanted = scaled * weight[:, None] + shift[:, None]
    torch.testing.assert_close(found.cpu().double(), wanted, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("shape", [(56, 1024, 1152), (116, 577, 1000), (14, 4096, 1152)], ids=str)
@pytest.mark.parametrize("is_gradient", [False, True])
def test_large_planes_are_shared_by_lines(shape: tuple[int, ...], is_gradient: bool) -> None:
    x, y = (torch.empty(shape, dtype=torch.bfloat16) for _ in range(2))
    a, b = like(x, y)
    given = (softmax_gradient(a, b), x, y) if is_gradient else (fusion([a], softmax(a)), x)
    segmented, (kernel,) = cuda_kernels(*given)
    assert segmented.edge_bytes == 0
    assert isinstance(kernel, KeptKernel)
    assert kernel.cluster > 1
    assert kernel.threads_across * kernel.axes.lanes * 2 >= 64  # bytes of a row
