"""Short odd rows of which nothing is reduced, with what each has one of, through shared memory:
values in every order of threads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.devices import ORDERS
from tests.programs import check, expand, fusion, ints, like, unsqueeze, whole
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.runtime.plan import Plan

pytestmark = [pytest.mark.usefixtures("device", "one_multiprocessor"), pytest.mark.sanitizer]
BF16, F16 = torch.bfloat16, torch.float16


def is_in_stretches(plan: Plan) -> bool:
    (source,) = (k for k in plan.kernels if k is not None)
    return "tf::copy_stretch" in source.text and "tf::store_stretch" in source.text


def of_all(row: TensorView, *shape: int) -> TensorView:
    """What each row has one of, at all its elements."""
    while row.ndim < len(shape):
        row = unsqueeze(row, row.ndim)
    return expand(row, *shape)


def targets(at: TensorView, columns: int) -> TensorView:
    """True at the element of a row that `at` names."""
    places = call(
        "iota", sc.constant(0), sc.constant(1), length=ints([columns]), dtype=DataType.Int
    )
    shape = (*at.shape, columns)
    return call("eq", expand(unsqueeze(places, 0), *shape), of_all(at, *shape))


def of_cross_entropy(x: torch.Tensor) -> tuple[Fusion, list[torch.Tensor]]:
    """Its gradient, less the exponential, which hosts and evaluators round otherwise."""
    rows, columns = x.shape
    given = [x, torch.randint(0, columns, (rows,)), whole(rows), whole(1)]
    a, at, top, scale = like(*given)
    below = call("sub", call("cast", a, dtype=DataType.Float), of_all(top, rows, columns))
    less = call("sub", below, sc.constant(1.0))
    made = call("where", targets(at, columns), less, below)
    scaled = call("mul", made, expand(unsqueeze(scale, 0), rows, columns))
    return fusion([a, at, top, scale], call("cast", scaled, dtype=a.dtype)), given


def of_largest(x: torch.Tensor) -> tuple[Fusion, list[torch.Tensor]]:
    """The gradient of the largest elements, for which no row is read."""
    rows, columns = x.shape
    given = [torch.randint(0, columns, (rows,)), whole(rows, dtype=x.dtype)]
    at, grown = like(*given)
    is_there = targets(at, columns)
    made = call("where", is_there, of_all(grown, rows, columns), sc.constant(0.0))
    return fusion([at, grown], made), given


def of_a_bias(x: torch.Tensor) -> tuple[Fusion, list[torch.Tensor]]:
    """Rows by two numbers each, and a bias of columns, which comes from a cache."""
    given = [x, whole(x.shape[0]), whole(x.shape[0]), whole(x.shape[1])]
    a, row, other, bias = like(*given)
    made = call("mul", call("cast", a, dtype=DataType.Float), of_all(row, *x.shape))
    made = call("add", made, of_all(other, *x.shape))
    made = call("add", made, expand(unsqueeze(bias, 0), *x.shape))
    return fusion([a, row, other, bias], call("cast", made, dtype=a.dtype)), given


PROGRAMS: dict[str, Callable[[torch.Tensor], tuple[Fusion, list[torch.Tensor]]]] = {
    "of cross entropy": of_cross_entropy,
    "of largest": of_largest,
    "with a bias": of_a_bias,
}
SIZES = {
    "a row of a thread": (4567, 9, F16),
    "pairs, and a plane that ends inside a vector": (2111, 34, BF16),
    "four lanes": (2048, 20, BF16),
    "single elements": (1152, 37, BF16),
    "a last turn of one row": (1153, 63, BF16),
    "half a warp": (301, 257, BF16),
    "a warp": (203, 577, F16),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_turn_brings_rows_and_what_they_have_one_of(name: str, size: str) -> None:
    rows, columns, dtype = SIZES[size]
    program, given = PROGRAMS[name](whole(rows, columns, dtype=dtype))
    plan = check(program, *given, orders=ORDERS)
    assert is_in_stretches(plan)


@pytest.mark.parametrize("shape", [(301, 7, 7, 7), (53, 41, 5, 7)])
def test_images_of_few_places_are_such_rows(shape: tuple[int, ...]) -> None:
    """As in the gradient of their means."""
    given = whole(*shape[:2], dtype=F16)
    (row,) = like(given)
    assert is_in_stretches(check(fusion([row], call("neg", of_all(row, *shape))), given))


def test_rows_are_written_in_place() -> None:
    given = [whole(2111, 34, dtype=BF16), whole(2111, dtype=BF16), whole(2111, dtype=BF16)]
    x, row, other = like(*given)
    made = call("add", call("mul", x, of_all(row, *x.shape)), of_all(other, *x.shape))
    assert is_in_stretches(check(fusion([x, row, other], writes=[(made, x)]), *given))


@pytest.mark.parametrize(("columns", "dtype"), [(50, F16), (49, BF16)])
def test_sums_of_a_row_and_a_column_are_spread_over_a_plane(
    columns: int, dtype: torch.dtype
) -> None:
    """The gradients of both, of which a thread keeps those of all rows in registers."""
    rows = 9000
    across, down = whole(columns, dtype=dtype), whole(rows, dtype=dtype)
    a, b = like(across, down)
    spread = call("add", expand(unsqueeze(a, 0), rows, columns), of_all(b, rows, columns))
    plan = check(fusion([a, b], spread), across, down, orders=ORDERS)
    assert "tf::store_stretch" in str(plan.kernels[0])
