"""Indices that a kernel makes and checks itself: where there are elements, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.devices import ORDERS, here
from tests.programs import (
    STRICT,
    check,
    cubin_of,
    cuda_kernels,
    expand,
    fusion,
    ints,
    like,
    pad,
    piece,
    run,
    total,
    unsqueeze,
)
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.options import Options
from thunder_fuser.runtime.errors import IndexRangeError

pytestmark = pytest.mark.usefixtures("device")
EXTENT = 7


def in_range(index: TensorView, extent: int) -> TensorView:
    return call("in_range", index, sc.constant(extent))


def checked(x: TensorView, index: TensorView, begins: TensorView) -> TensorView:
    """x where its place above what its row begins with is 3: beside a row, and in another one, what
    is loaded is out of range."""
    place = in_range(call("sub", index, _over_rows(begins, x)), EXTENT)
    return call("where", call("eq", place, sc.constant(3)), x, sc.constant(0.0))


def _over_rows(tv: TensorView, x: TensorView) -> TensorView:
    return expand(unsqueeze(tv, 1), *x.shape)


def _less(tv: TensorView, dim: int) -> TensorView:
    return call("sub", tv, expand(unsqueeze(total(tv, dim), dim), *tv.shape))


PROGRAMS: dict[str, Callable[[TensorView], TensorView]] = {
    "map": lambda tv: tv,
    "pad": lambda tv: pad(tv, [1, 2, 3, 1]),
    "slice": lambda tv: piece(tv, 1, 1, tv.shape[1] - 1),
    "rows": lambda tv: total(tv, 1),
    "padded rows": lambda tv: total(pad(tv, [1, 2, 3, 1]), 1),
    "columns": lambda tv: total(tv, 0),
    "kept rows": lambda tv: _less(tv, 1),
    "kept columns": lambda tv: _less(tv, 0),
}


def arguments(rows: int, columns: int) -> tuple[torch.Tensor, ...]:
    begins = 1000 * torch.arange(1, rows + 1)
    x = torch.randint(-3, 4, (rows, columns)).bfloat16()
    return x, torch.randint(EXTENT, (rows, columns)) + begins[:, None], begins


@pytest.mark.parametrize("shape", [(5, 37), (600, 49), (70, 577), (64, 1517)], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_lies_beside_the_elements_is_not_checked(name: str, shape: tuple[int, int]) -> None:
    """At 64 x 1517 vectors of columns that lag behind would have elements of other rows."""
    given = arguments(*shape)
    x, index, begins = like(*given)
    made = PROGRAMS[name](checked(x, index, begins))
    check(fusion([x, index, begins], made), *given, orders=ORDERS if shape[0] == 64 else ORDERS[:1])


@pytest.mark.parametrize("bad", [-1, EXTENT, 2**40])
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_element_is_checked(name: str, bad: int) -> None:
    if here().type == "cuda":
        pytest.skip("a failed assertion ends the process's use of the GPU")
    given = arguments(9, 41)
    given[1][5, 21] = given[2][5] + bad
    x, index, begins = like(*given)
    program = fusion([x, index, begins], PROGRAMS[name](checked(x, index, begins)))
    with pytest.raises(IndexRangeError, match=f"index {bad} is out of range .* extent {EXTENT}"):
        run(program, *given, options=Options(strict=True, thread_order=ORDERS[-1]))


def routed(x: TensorView, choice: TensorView) -> tuple[TensorView, TensorView]:
    """The elements that sums of their rows choose, in their places, and how often each place is
    chosen."""
    rows, columns = x.shape
    places = call(
        "iota", sc.constant(0), sc.constant(1), length=ints([columns]), dtype=DataType.Int
    )
    chosen = in_range(call("fmod", total(choice, 1), sc.constant(columns)), columns)
    hit = call("eq", expand(unsqueeze(places, 0), rows, columns), _over_rows(chosen, x))
    return call("where", hit, x, sc.constant(0.0)), total(hit, 0)


def test_an_index_that_a_row_makes_is_checked_in_its_kernel() -> None:
    given = torch.randint(-9, 9, (40, 72)).float(), torch.randint(0, 2, (40, 72))
    x, choice = like(*given)
    plan = check(fusion([x, choice], routed(x, choice)[0]), *given, options=STRICT)
    assert plan.launches == 1


def test_counts_of_what_rows_choose_are_summed_where_rows_are_walked() -> None:
    given = torch.empty(262144, 256, dtype=torch.bfloat16), torch.empty(262144, 256).short()
    x, choice = like(*given)
    _, kernels = cuda_kernels(fusion([x, choice], routed(x, choice)[1]), *given)
    assert len(kernels) == 2  # the sums of all blocks are the second one's
    assert all(cubin_of(kernel).spill_bytes == 0 for kernel in kernels)
