"""Reductions along rows that lie side by side in memory: what lies row after row passes through
strips in shared memory."""

from __future__ import annotations

import pytest
import torch

from tests.devices import ORDERS, copies
from tests.programs import (
    chain,
    check,
    cubin_of,
    cuda_kernels,
    expand,
    fusion,
    like,
    plan_of,
    swapped,
    total,
    unsqueeze,
    whole,
)
from tests.test_kept_kernels import is_close
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.kept_ir import KeptKernel
from thunder_fuser.options import Options

pytestmark = [pytest.mark.usefixtures("device", "wide_host"), pytest.mark.sanitizer]
SHAPES = {
    "vectors": (3, 64, 40),
    "odd columns": (2, 264, 7),
    "odd rows and columns": (1, 257, 131),
    "rows of few vectors, a plane that no tile divides": (3, 36, 24),
    "many rows": (2, 1025, 16),
    "few columns": (1, 100, 3),
}


def less_its_sums(x: TensorView) -> TensorView:
    """x less the sum of its row, and twice the largest of the rest: two phases."""
    left = call("sub", x, expand(unsqueeze(total(x, x.ndim - 1), x.ndim - 1), *x.shape))
    largest = call("max", left, dims=(x.ndim - 1,))
    return call("sub", left, expand(unsqueeze(largest, x.ndim - 1), *x.shape))


def layer_norm(x: TensorView, weight: TensorView, shift: TensorView) -> TensorView:
    """Of the rows of what x is with its last two dims swapped."""
    wide = call("cast", swapped(x), dtype=DataType.Float)
    count = sc.constant(float(wide.shape[-1]))

    def spread(row: TensorView) -> TensorView:
        return expand(unsqueeze(row, wide.ndim - 1), *wide.shape)

    centred = call("sub", wide, spread(call("div", total(wide, wide.ndim - 1), count)))
    squares = total(call("mul", centred, centred), wide.ndim - 1)
    variance = call("add", call("div", squares, count), sc.constant(1e-5))
    scaled = call("mul", centred, spread(chain(variance, "rsqrt")))
    rows = [expand(unsqueeze(unsqueeze(w, 0), 0), *wide.shape) for w in (weight, shift)]
    return call("cast", call("add", call("mul", scaled, rows[0]), rows[1]), dtype=x.dtype)


def one_kernel(plan: object) -> None:
    launches, kernels = plan.launches, plan.kernels  # type: ignore[attr-defined]
    assert launches == 1
    assert "strip_place" in kernels[0].text


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int16]
)
@pytest.mark.parametrize("name", SHAPES)
def test_results_lie_row_after_row(name: str, dtype: torch.dtype) -> None:
    x = whole(*SHAPES[name], dtype=dtype)
    (a,) = like(x)
    one_kernel(check(fusion([a], less_its_sums(swapped(a))), x, orders=ORDERS))


@pytest.mark.parametrize("dtypes", [(torch.bfloat16, torch.float32), (torch.int8, torch.int16)])
@pytest.mark.parametrize("name", SHAPES)
def test_operands_lie_in_both_orders(name: str, dtypes: tuple[torch.dtype, torch.dtype]) -> None:
    """One plane lies each way, a row and a table of rows are shared; both ways are stored."""
    shape = SHAPES[name]
    x, y = whole(*shape, dtype=dtypes[0]), whole(*shape, dtype=dtypes[1]).mT.contiguous()
    row, table = (whole(*size, dtype=dtypes[1]) for size in (shape[1:2], y.shape[1:]))
    a, b, c, d = like(x, y, row, table)
    many = [expand(unsqueeze(d, 0), *y.shape), expand(unsqueeze(unsqueeze(c, 0), 0), *y.shape)]
    added = call("add", swapped(a), b)
    made = less_its_sums(call("mul", call("add", added, many[0]), many[1]))
    plan = check(fusion([a, b, c, d], made, swapped(made)), x, y, row, table, orders=ORDERS)
    if shape[1] < 1000:  # else no strips of 64-bit sums fit
        one_kernel(plan)


@pytest.mark.parametrize("shape", [(3, 64, 40), (2, 33, 67), (1, 40, 1030)])
def test_results_may_lie_otherwise_than_operands(shape: tuple[int, ...]) -> None:
    x = whole(*shape)
    (a,) = like(x)
    one_kernel(check(fusion([a], chain(swapped(less_its_sums(a)), "neg")), x))
    check(fusion([a], swapped(less_its_sums(swapped(a))), less_its_sums(swapped(a))), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_elements_behind_the_last_run_are_moved_one_by_one(dtype: torch.dtype) -> None:
    """Of a copy of columns, an odd number of them in all: read, and stored."""
    x = whole(3, 31, 67, dtype=dtype)
    y = x.mT.contiguous()
    a, b = like(x, y)
    made = less_its_sums(call("add", swapped(a), b))
    plan = check(fusion([a, b], made), x, y, orders=ORDERS)
    one_kernel(plan)
    text = plan.kernels[0].text
    assert "[own] = T" in text
    assert "[element] = t" in text


def test_misaligned_and_strided_operands() -> None:
    x = whole(3 * 64 * 40 + 1)[1:].view(3, 64, 40)
    y = whole(3, 80, 64)[:, ::2]
    a, b = like(x, y)
    check(fusion([a, b], less_its_sums(call("add", swapped(a), b))), x, y)


@pytest.mark.parametrize("which", [0, 1])
def test_a_write_in_place(which: int) -> None:
    """Of the plane that is read directly, and of the one that is turned."""
    x, y = whole(2, 48, 40), whole(2, 40, 48)
    a, b = like(x, y)
    made = less_its_sums(call("add", swapped(a), b))
    check(fusion([a, b], made, writes=[((swapped(made), a), (made, b))[which]]), x, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", SHAPES)
def test_a_layer_norm_of_swapped_dims(name: str, dtype: torch.dtype) -> None:
    x = (torch.randn(SHAPES[name]) + 3).to(dtype)
    weight, shift = torch.randn(x.shape[1]), torch.randn(x.shape[1])
    inputs = like(x, weight, shift)
    given = copies([x, weight, shift])
    plan = plan_of(fusion(inputs, layer_norm(*inputs)), *given, options=Options())
    one_kernel(plan)

    def norm(v: torch.Tensor) -> torch.Tensor:
        w, b = weight.to(v.dtype), shift.to(v.dtype)
        return torch.nn.functional.layer_norm(v.mT, (x.shape[1],), w, b, eps=1e-5)

    exact = norm(x.double())
    assert is_close(plan.run(*given)[0], exact, norm(x.float()).to(dtype), exact.abs().max().item())


@pytest.mark.parametrize("rows", [768, 769, 1024, 192])
def test_rows_of_patches_are_one_kernel_without_spills(rows: int) -> None:
    x = torch.empty(64, rows, 196, dtype=torch.bfloat16)
    (a,) = like(x)
    made = call(
        "cast", less_its_sums(call("cast", swapped(a), dtype=DataType.Float)), dtype=a.dtype
    )
    segmented, (kernel,) = cuda_kernels(fusion([a], made), x)
    assert segmented.edge_bytes == 0
    assert isinstance(kernel, KeptKernel)
    assert [a.access_bytes for a in kernel.empties] == [16]
    assert cubin_of(kernel).spill_bytes == 0
