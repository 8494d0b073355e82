"""Columns that blocks keep from their sums to what is stored of each element."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.devices import ORDERS, copies
from tests.pairwise import with_halves
from tests.programs import (
    H200,
    STRICT,
    chain,
    check,
    cubin_of,
    cuda_kernels,
    expand,
    fusion,
    ints,
    like,
    plan_of,
    reshape,
    run_in_orders,
    total,
    unsqueeze,
    whole,
)
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.kept_ir import KeptKernel
from thunder_fuser.options import Options

pytestmark = [pytest.mark.usefixtures("device", "wide_host"), pytest.mark.sanitizer]
SHAPES = {
    "vectors": (3, 64, 40),
    "odd columns": (2, 257, 7),
    "a prime of columns, rows beyond those of the threads": (1, 33, 131),
    "a plane that no tile divides": (3, 33, 24),
    "many rows": (2, 1025, 16),
    "few columns": (1, 100, 2),
    "one column": (3, 40, 1),
}
RELAXED = Options()


def spread(sums: TensorView, over: TensorView) -> TensorView:
    """One value per column at every element of it: dim 1 of three, or of two dims the first."""
    return expand(unsqueeze(sums, over.ndim - 2), *over.shape)


def softmax(x: TensorView) -> TensorView:
    wide = call("cast", x, dtype=DataType.Float)
    dim = x.ndim - 2
    powers = chain(call("sub", wide, spread(call("max", wide, dims=(dim,)), wide)), "exp")
    made = call("div", powers, spread(total(powers, dim), wide))
    return call("cast", made, dtype=x.dtype)


def normalised(x: TensorView, weight: TensorView, shift: TensorView) -> tuple[TensorView, ...]:
    """A layer norm over dim 1, its mean and its variance; weights of the rows."""
    wide = call("cast", x, dtype=DataType.Float)
    count = sc.constant(float(x.shape[1]))
    mean = call("div", total(wide, 1), count)
    centred = call("sub", wide, spread(mean, wide))
    variance = call("div", total(call("mul", centred, centred), 1), count)
    scale = chain(call("add", variance, sc.constant(1e-5)), "rsqrt")
    scaled = call("mul", centred, spread(scale, wide))
    rows = [expand(unsqueeze(unsqueeze(w, 1), 0), *x.shape) for w in (weight, shift)]
    made = call("add", call("mul", scaled, rows[0]), rows[1])
    return call("cast", made, dtype=x.dtype), mean, variance


def is_close(found: torch.Tensor, exact: torch.Tensor, eager: torch.Tensor, of: float) -> bool:
    """True for an error like eager's, or of a few roundings of a result as large as `of`."""
    rounding = torch.finfo(found.dtype).eps
    error, usual = ((t.cpu().double() - exact).abs().max() for t in (found, eager))
    return bool(error <= 2 * usual + 4 * rounding * of)


@pytest.mark.parametrize(("name", "dtype"), with_halves(list(SHAPES), torch.float32))
def test_a_softmax_of_columns_is_one_kernel(name: str, dtype: torch.dtype) -> None:
    x = torch.randn(SHAPES[name]).to(dtype) * 4
    (a,) = like(x)
    plan, results = run_in_orders(fusion([a], softmax(a)), x, options=RELAXED)
    assert plan.launches == 1
    for (found,) in results:
        assert is_close(found, x.double().softmax(1), x.softmax(1), 1.0)


def test_an_infinite_column_is_as_in_torch() -> None:
    x = torch.randn(2, 64, 24)
    x[0, :, 5] = -torch.inf
    x[1, 3:, 7] = -torch.inf
    x[1, 9, 2] = torch.inf
    x[0, 1, 11] = torch.nan
    (a,) = like(x)
    (found,) = plan_of(fusion([a], softmax(a)), *copies([x]), options=STRICT).run(*copies([x]))
    torch.testing.assert_close(found.cpu(), x.softmax(1), equal_nan=True)


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", SHAPES)
def test_a_layer_norm_of_columns_is_one_kernel(
    name: str, dtype: torch.dtype, offset: float
) -> None:
    x = (torch.randn(SHAPES[name]) + offset).to(dtype)
    weight, shift = torch.randn(x.shape[1]), torch.randn(x.shape[1])
    inputs = like(x, weight, shift)
    given = copies([x, weight, shift])
    plan = plan_of(fusion(inputs, *normalised(*inputs)), *given, options=RELAXED)
    assert plan.launches == 1
    found, mean, variance = plan.run(*given)
    wide = x.double()
    exact = wide.var(1, correction=0)
    usual = (x.float().var(1, correction=0).double() - exact).abs().max()
    slack = 64 * torch.finfo(torch.float32).eps * (exact.max() + x.abs().max().double())
    assert (variance.cpu().double() - exact).abs().max() <= 2 * usual + slack
    assert is_close(mean, wide.mean(1), x.float().mean(1), x.abs().max().item())

    def norm(v: torch.Tensor) -> torch.Tensor:
        turned = v.transpose(1, 2)
        w, b = weight.to(v.dtype), shift.to(v.dtype)
        made = torch.nn.functional.layer_norm(turned, (x.shape[1],), w, b, eps=1e-5)
        return made.transpose(1, 2)

    exact = norm(wide)
    eager = norm(x.float()).to(dtype)
    # The mean is rounded where values are far from zero, by what is much of a small deviation.
    smallest = (wide.var(1, correction=0).min() + 1e-5).sqrt().item()
    rounding = torch.finfo(torch.float32).eps / torch.finfo(dtype).eps
    apart = rounding * abs(offset) * weight.abs().max().item() / smallest
    assert is_close(found, exact, eager, exact.abs().max().item() + apart)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize("shape", [(257, 24), (3, 65, 9), (2, 34, 40), (700, 1030)])
def test_every_element_meets_the_sums_of_its_column(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    x = whole(*shape, dtype=dtype)
    (a,) = like(x)
    dim = a.ndim - 2
    left = call("sub", a, spread(total(a, dim), a))
    largest = call("max", chain(left, "abs"), dims=(dim,))
    smallest = call("min", left, dims=(dim,))
    made = call("sub", left, spread(largest, a))
    plan = check(fusion([a], left, made, largest, smallest), x, orders=ORDERS)
    assert plan.launches == 1


@pytest.mark.parametrize(
    "lie",
    [
        lambda: whole(3, 64, 41)[:, :, 1:],
        lambda: whole(3, 41, 64).transpose(1, 2),
        lambda: whole(64, 3, 40).transpose(0, 1),
        lambda: whole(3, 1, 40).expand(3, 64, 40),
        lambda: whole(3, 128, 40)[:, ::2],
    ],
    ids=["misaligned", "along rows", "planes inside", "repeated rows", "every second row"],
)
def test_tensors_may_lie_otherwise(lie: object) -> None:
    assert callable(lie)
    x = lie()
    (a,) = like(x)
    dim = a.ndim - 2
    left = call("sub", a, spread(total(a, dim), a))
    check(fusion([a], left, call("max", left, dims=(dim,))), x)


def test_what_rows_and_columns_share_is_read_too() -> None:
    x, row, column = whole(2, 65, 24), whole(65), whole(2, 24)
    a, r, c = like(x, row, column)
    scaled = call("mul", a, expand(unsqueeze(unsqueeze(r, 1), 0), *a.shape))
    moved = call("add", scaled, spread(c, a))
    made = call("sub", moved, spread(total(moved, 1), a))
    plan = check(fusion([a, r, c], made, call("add", total(made, 1), c)), x, row, column)
    assert plan.launches == 1


def chosen_of_one_hot(x: TensorView, classes: TensorView, weights: TensorView) -> TensorView:
    """Images (n, c, s) at their classes, weighted by class and image, less what their column comes
    to."""
    n, c, s = x.shape
    numbers = call("iota", *ints([0, 1]), length=ints([c]), dtype=DataType.Int)
    checked = reshape(call("index_select", numbers, reshape(classes, n * s), dim=0), n, 1, s)
    rows = expand(unsqueeze(unsqueeze(numbers, 1), 0), n, c, s)
    terms = call("mul", x, expand(unsqueeze(weights, 2), n, c, s))
    terms = call("where", call("eq", expand(checked, n, c, s), rows), terms, sc.constant(0.0))
    return call("sub", terms, call("mul", x, spread(total(terms, 1), x)))


@pytest.mark.parametrize("shape", [(3, 40, 24), (2, 129, 7)])
def test_an_index_at_which_nothing_is_read_is_only_checked(shape: tuple[int, ...]) -> None:
    n, c, s = shape
    x, classes, weights = whole(*shape), torch.randint(c, (n, s)), whole(n, c)
    tvs = like(x, classes, weights)
    program = fusion(list(tvs), chosen_of_one_hot(*tvs))
    assert check(program, x, classes, weights, orders=ORDERS).launches == 1


def test_lanes_share_the_register_of_what_a_row_of_an_image_has_one_of() -> None:
    x = torch.empty(64, 40, 6272, device="meta")
    classes = torch.empty(64, 6272, dtype=torch.int64, device="meta")
    weights = torch.empty(64, 40, device="meta")
    tvs = like(x, classes, weights)
    program = fusion(list(tvs), chosen_of_one_hot(*tvs))
    _, (kernel,) = cuda_kernels(program, x, classes, weights, target=H200)
    assert isinstance(kernel, KeptKernel)
    assert (kernel.threads_across, kernel.threads_down) == (16, 8)


def test_a_plane_is_written_in_place_where_its_block_keeps_it() -> None:
    x = whole(2, 65, 24)
    (a,) = like(x)
    made = call("sub", a, spread(total(a, 1), a))
    plan = check(fusion([a], total(a, 1), writes=[(made, a)]), x)
    assert plan.launches == 1


def test_statistics_are_updated_in_place_beside_what_is_normalised() -> None:
    x, mean = whole(130, 24), whole(24)
    a, m = like(x, mean)
    sums = total(a, 0)
    program = fusion([a, m], call("sub", a, spread(sums, a)), writes=[(call("add", m, sums), m)])
    assert check(program, x, mean).launches == 1


def test_statistics_that_the_plane_needs_as_they_were_are_updated_behind_it() -> None:
    x, mean = whole(130, 24), whole(24)
    a, m = like(x, mean)
    sums = total(a, 0)
    made = call("add", call("sub", a, spread(sums, a)), spread(m, a))
    check(fusion([a, m], made, writes=[(call("add", m, sums), m)]), x, mean)


def cross_entropy(x: TensorView, target: TensorView) -> tuple[TensorView, ...]:
    """Of each column, and what its gradient needs."""
    wide = call("cast", x, dtype=DataType.Float)
    top = call("max", wide, dims=(1,))
    below = call("sub", wide, spread(top, wide))
    logarithm = chain(total(chain(below, "exp"), 1), "log")
    chosen = call("take_along_axis", below, unsqueeze(target, 1), dim=1)
    return call("sub", unsqueeze(logarithm, 1), chosen), logarithm, top


@pytest.mark.parametrize(
    ("shape", "dtype"),
    with_halves(
        [(3, 64, 40), (2, 257, 7), (1, 150, 136), (3, 33, 24), (2, 12, 64), (3, 40, 1)],
        torch.float32,
    ),
)
def test_a_cross_entropy_of_columns_is_one_kernel(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    x, target = torch.randn(shape).to(dtype) * 4, torch.randint(shape[1], (shape[0], shape[2]))
    a, t = like(x, target)
    program = fusion([a, t], *cross_entropy(a, t))
    plan, results = run_in_orders(program, x, target, options=RELAXED)
    assert plan.launches == 1
    wide = x.double()
    wanted = torch.nn.functional.cross_entropy(wide, target, reduction="none")
    for loss, logarithm, top in ([t.double() for t in found] for found in results):
        torch.testing.assert_close(loss[:, 0], wanted, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(top, wide.amax(1), rtol=0, atol=0)
        torch.testing.assert_close(logarithm + top, wide.logsumexp(1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["bounds", "nan"])
def test_a_column_of_a_thread_is_checked(mode: str) -> None:
    x, target = torch.randn(1, 150, 136), torch.randint(150, (1, 136))
    a, t = like(x, target)
    plan = plan_of(
        fusion([a, t], *cross_entropy(a, t)),
        *copies([x, target]),
        options=replace(RELAXED, check=mode),
    )
    loss, *_ = plan.run(*copies([x, target]))
    wanted = torch.nn.functional.cross_entropy(x.double(), target, reduction="none")
    torch.testing.assert_close(loss.cpu().double()[:, 0], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(44, 150, 10000), (27, 150, 16384), (1069, 320, 196)], ids=str)
def test_large_cross_entropies_are_kept_without_spills(shape: tuple[int, ...]) -> None:
    x = torch.empty(shape, dtype=torch.bfloat16, device="meta")
    target = torch.empty(shape[0], shape[2], dtype=torch.int64, device="meta")
    a, t = like(x, target)
    _, (kernel,) = cuda_kernels(fusion([a, t], *cross_entropy(a, t)), x, target, target=H200)
    assert isinstance(kernel, KeptKernel)
    assert kernel.is_spread
    assert cubin_of(kernel).spill_bytes == 0


def test_columns_that_no_block_keeps_are_cut() -> None:
    x = whole(20000, 24)
    (a,) = like(x)
    made = call("sub", a, spread(total(a, 0), a))
    assert check(fusion([a], made), x).launches == 2


def softmax_gradient(y: TensorView, g: TensorView) -> Fusion:
    wide, of = (call("cast", t, dtype=DataType.Float) for t in (y, g))
    terms = call("mul", wide, of)
    made = call("sub", terms, call("mul", wide, spread(total(terms, 1), y)))
    return fusion([y, g], call("cast", made, dtype=DataType.BFloat16))


@pytest.mark.parametrize("shape", [(64, 256, 3136), (64, 512, 1024), (8, 1000, 4096)], ids=str)
@pytest.mark.parametrize("is_gradient", [False, True])
def test_large_planes_are_kept_without_spills(shape: tuple[int, ...], is_gradient: bool) -> None:
    x, y = (torch.empty(shape, dtype=torch.bfloat16) for _ in range(2))
    a, b = like(x, y)
    given = (softmax_gradient(a, b), x, y) if is_gradient else (fusion([a], softmax(a)), x)
    segmented, (kernel,) = cuda_kernels(*given, target=H200)
    assert segmented.edge_bytes == 0
    assert isinstance(kernel, KeptKernel)
    assert cubin_of(kernel).spill_bytes == 0


def test_the_order_of_threads_does_not_show_in_a_bit() -> None:
    x = torch.randn(3, 257, 24) * 3
    (a,) = like(x)
    found = []
    for order in ORDERS:
        options = replace(STRICT, thread_order=order)
        plan = plan_of(fusion([a], softmax(a)), *copies([x]), options=options)
        found += [plan.run(*copies([x]))[0].cpu() for _ in range(2)]
    assert all(torch.equal(found[0], other) for other in found)


def test_what_needs_the_sums_beside_it_is_kept_by_none() -> None:
    """Rows are summed of what has lost the largest of its column, and lies in another order."""
    x = whole(257, 24, 4).transpose(1, 2)
    (tv,) = like(x)
    left = call("sub", tv, expand(unsqueeze(call("max", tv, dims=(0,)), 0), *x.shape))
    program = fusion([tv], call("sum", left, dims=(1, 2)), writes=[(left, tv)])
    assert len(cuda_kernels(program, x)[1]) == 2
    check(program, x)
