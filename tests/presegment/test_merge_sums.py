"""Which sums of weighted sums down the columns are one sum of the plane, and that results stay."""

from __future__ import annotations

import pytest
import torch

from tests.devices import ORDERS
from tests.programs import H200, cuda_kernels, expand, fusion, like, reshape, run, total
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.options import Options
from thunder_fuser.presegment import arrange
from thunder_fuser.presegment.merge_sums import merge_sums
from thunder_fuser.runtime.bind import bind
from thunder_fuser.runtime.evaluate import evaluate

IMAGES, HEADS, QUERIES, KEYS = 2, 3, 35, 37


def gradient(g: TensorView, p: TensorView) -> TensorView:
    """Of a softmax's operand."""
    products = call("mul", g, p)
    spread = expand(reshape(total(products, 3), *p.shape[:3], 1), *p.shape)
    return call("mul", p, call("sub", g, spread))


def slopes(ds: TensorView, w: TensorView, rounded: DataType) -> tuple[TensorView, TensorView]:
    """Sums down the columns of each head, and of these times the weights of keys."""
    down = total(ds, 0, 2)
    wide = call("cast", call("cast", down, dtype=rounded), dtype=DataType.Float)
    weighted = call("mul", reshape(wide, down.shape[0], 1, KEYS), w)
    return down, total(call("neg", weighted), 1, 2)


def program(g: TensorView, p: TensorView, w: TensorView) -> Fusion:
    ds = gradient(g, p)
    return fusion([g, p, w], ds, slopes(ds, w, DataType.BFloat16)[1])


def given() -> tuple[torch.Tensor, ...]:
    p = torch.softmax(torch.randn(IMAGES, HEADS, QUERIES, KEYS), -1)
    return torch.randn_like(p), p, torch.randn(HEADS, 1, KEYS)


def exact(g: torch.Tensor, p: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    ds = p * (g - (g * p).sum(-1, keepdim=True))
    return -(ds * w).sum((0, 2, 3))


def test_a_sum_of_weighted_sums_is_one_of_the_plane() -> None:
    tensors = given()
    made = merge_sums(program(*like(*tensors)))
    assert f"f32[r{IMAGES}, i{HEADS}, r{QUERIES}, r{KEYS}] = sum(" in str(made)
    assert "bf16" not in str(made)
    _, found = evaluate(made, tensors)
    wanted = exact(*(t.double() for t in tensors))
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)


def test_sums_that_others_need_stay() -> None:
    g, p, w = like(*given())
    ds = gradient(g, p)
    whole = fusion([g, p, w], ds, *slopes(ds, w, DataType.Float))
    assert merge_sums(whole) is whole


def test_sums_of_planes_whose_rows_nobody_needs_stay() -> None:
    g, p, w = like(*given())
    whole = fusion([g, p, w], slopes(call("mul", g, p), w, DataType.Float)[1])
    assert merge_sums(whole) is whole


def test_sums_of_other_columns_stay() -> None:
    """What a head comes to for each key is summed over the heads, not the keys."""
    g, p, _ = like(*given())
    ds = gradient(g, p)
    whole = fusion([g, p], ds, total(total(ds, 0, 2), 0))
    assert merge_sums(whole) is whole


@pytest.mark.parametrize("keys", [64, 197, 256, 577])
def test_the_gradient_of_a_slope_comes_with_that_of_the_scores(keys: int) -> None:
    """Rows come to a number each, which a small launch sums."""
    g, p = (torch.empty(64, 3, keys, keys, dtype=torch.bfloat16) for _ in range(2))
    given = g, p, torch.empty(3, 1, keys)
    a, b, w = like(*given)
    ds = gradient(*(call("cast", tv, dtype=DataType.Float) for tv in (a, b)))
    weighted = call("mul", reshape(total(ds, 0, 2), 3, 1, keys), w)
    whole = fusion([a, b, w], call("cast", ds, dtype=DataType.BFloat16), total(weighted, 1, 2))
    bound = bind(whole, given)
    made = arrange(bound.fusion, bound.layouts, H200)
    _, kernels = cuda_kernels(made, *given)
    assert [type(kernel) for kernel in kernels] == [RowKernel, RowKernel]


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("order", ORDERS)
def test_results_are_those_of_eager(order: str) -> None:
    tensors = given()
    found = run(program(*like(*tensors)), *tensors, options=Options(thread_order=order))
    wanted = exact(*(t.double() for t in tensors))
    torch.testing.assert_close(found[1].cpu().double(), wanted, rtol=1e-5, atol=1e-5)


def test_the_square_of_a_sum_is_no_sum_of_the_plane() -> None:
    x = torch.randn(64, 512)
    (a,) = like(x)
    less = call("sub", a, expand(reshape(call("max", a, dims=(1,)), 64, 1), 64, 512))
    sums = total(less, 0)
    whole = fusion([a], call("exp", less), total(call("mul", sums, sums), 0))
    assert merge_sums(whole) is whole
