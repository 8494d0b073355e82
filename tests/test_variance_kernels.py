"""Variances in one pass: their error beside torch's, on data that a sum of squares would drown."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.devices import ORDERS, copies
from tests.presegment.test_one_pass_variance import deviation, mean, spread
from tests.programs import (
    H200,
    STRICT,
    cubin_of,
    cuda_kernels,
    fusion,
    like,
    plan_of,
    run_in_orders,
)
from thunder_fuser.analysis.shared_rows import shared_rows
from thunder_fuser.codegen.emit import emit
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.presegment.one_pass_variance import one_pass_variance

pytestmark = [pytest.mark.usefixtures("device", "wide_host"), pytest.mark.sanitizer]
# Columns of one block and of several; scattered axes of odd and of even lengths; long rows.
SHAPES = {
    "columns": ((200, 33), (0,)),
    "shared columns": ((3001, 20), (0,)),
    "channels": ((5, 7, 6, 5), (0, 2, 3)),
    "shared channels": ((40, 3, 1000), (0, 2)),
    "odd channels": ((33, 5, 27, 31), (0, 2, 3)),
    "rows": ((3, 70001), (1,)),
    "channels in pieces of several turns": ((40, 3, 7000), (0, 2)),
}
DATA = {
    "noise": lambda *shape: torch.randn(shape),
    "far from zero": lambda *shape: torch.randn(shape) + 1e4,
    "constant": lambda *shape: torch.full(shape, 1e4 + 0.1),
    "first element far off": lambda *shape: _first(torch.randn(shape), 1e5),
    "drifting": lambda *shape: (
        torch.randn(shape) + torch.arange(float(shape[0])).reshape(-1, *[1] * (len(shape) - 1))
    ),
}


def _first(x: torch.Tensor, value: float) -> torch.Tensor:
    x[(0,) * x.ndim] = value
    return x


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", SHAPES)
def test_errors_are_like_those_of_torch(name: str, data: str) -> None:
    shape, dims = SHAPES[name]
    x = DATA[data](*shape)
    (a,) = like(x)
    program = fusion([a], deviation(a, *dims), mean(a, *dims))
    plan, results = run_in_orders(program, x)
    assert plan.launches == 1
    count = x.numel() / results[0][0].numel()
    exact, eager = (t.var(dims, correction=0).double() * count for t in (x.double(), x))
    # A few roundings of the result, and of an element of the largest size beside its mean.
    rounding = torch.finfo(x.dtype).eps
    slack = 256 * rounding * exact.max() + count * (rounding * x.abs().max().double()) ** 2
    for found, _ in results:
        assert (found.double() - exact).abs().max() <= 2 * (eager - exact).abs().max() + slack


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("shape", [(200, 32), (671, 40)])
def test_columns_that_are_kept_err_like_those_of_torch(shape: tuple[int, int], data: str) -> None:
    x = DATA[data](*shape)
    (a,) = like(x)
    variance = call("truediv", deviation(a, 0), sc.constant(shape[0]))
    scale = call("rsqrt", call("add", variance, sc.constant(1e-5)))
    distance = call("sub", a, spread(mean(a, 0), a, 0))
    program = fusion([a], call("mul", distance, spread(scale, a, 0)))
    plan = plan_of(program, *copies([x]), options=STRICT)
    assert plan.launches == 1
    (text,) = plan.sources
    assert "tf::observed" not in text
    (found,) = (t.cpu().double() for t in plan.run(*copies([x])))
    exact, eager = (
        torch.nn.functional.batch_norm(t, None, None, training=True).double()
        for t in (x.double(), x)
    )
    assert (found - exact).abs().max() <= 2 * (eager - exact).abs().max() + 1e-5


def test_a_double_keeps_its_digits() -> None:
    x = torch.randn(3001, 20, dtype=torch.float64) + 1e8
    (a,) = like(x)
    given = copies([x])
    (found,) = plan_of(fusion([a], deviation(a, 0)), *given, options=STRICT).run(*given)
    exact = (x - x.mean(0)).square().sum(0)
    torch.testing.assert_close(found.cpu(), exact, rtol=1e-9, atol=0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_no_number_shows_in_its_column_alone(bad: float) -> None:
    x = torch.randn(3001, 20)
    x[1234, 5] = bad
    (a,) = like(x)
    given = copies([x])
    (found,) = plan_of(fusion([a], deviation(a, 0)), *given, options=STRICT).run(*given)
    assert torch.isnan(found).nonzero().tolist() == [[5]]


@pytest.mark.parametrize("name", ["shared columns", "shared channels", "rows"])
def test_the_order_of_blocks_does_not_show_in_a_bit(name: str) -> None:
    shape, dims = SHAPES[name]
    x = torch.randn(shape) + 3
    (a,) = like(x)
    found = []
    for order in ORDERS:
        options = replace(STRICT, thread_order=order)
        plan = plan_of(fusion([a], deviation(a, *dims)), *copies([x]), options=options)
        found += [plan.run(*copies([x]))[0].cpu() for _ in range(2)]
    assert all(torch.equal(found[0], other) for other in found)


@pytest.mark.parametrize(
    ("shape", "dims"),
    [((200704, 256), (0,)), ((64, 256, 56, 56), (0, 2, 3)), ((64, 2048, 7, 7), (0, 2, 3))],
)
def test_nvrtc_compiles_it_without_spills(shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    x = torch.empty(shape, dtype=torch.bfloat16)
    (a,) = like(x)
    wide = call("cast", a, dtype=DataType.Float)
    program = fusion([a], deviation(wide, *dims), mean(wide, *dims))
    is_shared = shared_rows(program, H200)
    _, (kernel,) = cuda_kernels(one_pass_variance(program, is_shared), x)
    source = emit(kernel)
    assert "tf::observed" in source.text
    assert cubin_of(kernel).spill_bytes == 0
