"""Functions of neighbours, stored or summed: the bits are eager's, and sums are near fp64's."""

from __future__ import annotations

from functools import reduce

import pytest
import torch

from tests.devices import ORDERS
from tests.programs import check, cuda_kernels, fusion, like, pad, piece, run_in_orders, total
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.map_ir import Kernel

pytestmark = [pytest.mark.usefixtures("device"), pytest.mark.sanitizer]
SHAPES = [(3, 8, 24), (2, 33, 40), (2, 9, 31), (5, 12, 28), (1, 9, 260)]


def moved(x: TensorView, dim: int, by: int) -> TensorView:
    """Each element's neighbour, 0 where it has none."""
    size, widths = x.shape[dim], [0] * (2 * (x.ndim - dim))
    widths[-1 if by > 0 else -2] = abs(by)
    return pad(piece(x, dim, max(by, 0), size + min(by, 0)), widths)


def steps(x: TensorView, dim: int) -> TensorView:
    size = x.shape[dim]
    return call("sub", piece(x, dim, 1, size), piece(x, dim, 0, size - 1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_made_of_all_four_neighbours(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    (x,) = like(x0 := torch.randn(shape).to(dtype))
    beside = [moved(x, dim, by) for dim in (1, 2) for by in (1, -1)]
    check(fusion([x], reduce(lambda a, b: call("add", a, b), beside, x)), x0, orders=ORDERS)


@pytest.mark.parametrize("shape", [(33, 65), (16, 64), (7, 257)])
def test_differences_of_rows_that_begin_anywhere(shape: tuple[int, int]) -> None:
    """And of their neighbours but one."""
    lies = torch.randn(shape[0] * shape[1] + 1).bfloat16()[1:].view(shape)
    (x,) = like(lies)
    again = steps(steps(x, 1), 1)
    check(fusion([x], steps(x, 1), again), lies, orders=ORDERS)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("shape", [(40, 64, 56), (33, 28, 60), (11, 15, 31)])
def test_sums_of_how_far_neighbours_are_from_each_other(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    (x,) = like(x0 := torch.randn(shape).to(dtype))
    wide = call("cast", x, dtype=like(torch.zeros(1))[0].dtype)
    program = fusion([x], *(total(call("abs", steps(wide, d)), 0, 1, 2) for d in (1, 2)))
    exact = [x0.double().diff(dim=d).abs().sum() for d in (1, 2)]
    plan, results = run_in_orders(program, x0)
    assert ("beside<" in plan.sources[0]) == (shape[-1] % 4 == 0)
    for found in results:
        for got, want in zip(found, exact, strict=True):
            torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=0)


def test_a_thread_has_rows_one_below_the_other() -> None:
    """Of four it loads six, with the element behind its own."""
    (x,) = like(x0 := torch.empty(512, 64, 224).bfloat16())
    made = reduce(lambda a, b: call("add", a, b), [moved(x, 1, 1), moved(x, 1, -1), moved(x, 2, 1)])
    _, (kernel,) = cuda_kernels(fusion([x], made), x0)
    assert isinstance(kernel, Kernel)
    ((body,),) = kernel.groups
    assert (len(body.loads), len(body.stores)) == (6, 4)
    assert [len(load.behind) for load in body.loads] == [1, 1, 1, 1, 0, 0]
