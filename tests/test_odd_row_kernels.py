"""Rows of any length that lie one after another in memory, of one dim or several, which blocks have
or share: every element counts once, and nothing beside the tensors is touched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

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
    flip,
    fusion,
    like,
    pad,
    permute,
    piece,
    plan_of,
    reshape,
    run_in_orders,
    total,
    unsqueeze,
    whole,
)
from thunder_fuser.codegen.emit import emit
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.options import Options

pytestmark = [pytest.mark.usefixtures("device", "wide_host"), pytest.mark.sanitizer]
Made = Callable[[TensorView], TensorView]

# Shape, and the dims of a row. Of 16-bit elements the rows of each begin in other lanes, those of
# the last ones in all of them.
SHAPES = {
    "a plane of one row": ((257, 311), 2),
    "of three dims": ((43, 41, 47), 3),
    "of one dim": ((80_003,), 1),
    "less than a vector": ((1, 7), 2),
    "a vector and one": ((3, 3), 2),
    "two rows": ((2, 201, 203), 2),
    "rows of three dims": ((3, 37, 41, 45), 3),
    "many rows of two dims": ((19, 15, 17), 2),
    "rows in two dims": ((3, 5, 9, 31), 2),
}
OTHERS = torch.float32, torch.float64, torch.int8


def along(tv: TensorView, dims: int) -> tuple[int, ...]:
    return tuple(range(tv.ndim - dims, tv.ndim))


def spread(row: TensorView, x: TensorView, dims: int) -> TensorView:
    """What a row has one of, at each of its elements."""
    for dim in along(x, dims):
        row = unsqueeze(row, dim)
    return expand(row, *x.shape)


@pytest.mark.parametrize(("name", "dtype"), with_halves(list(SHAPES), *OTHERS))
def test_sums_of_rows_and_what_is_stored_beside_them(name: str, dtype: torch.dtype) -> None:
    shape, dims = SHAPES[name]
    x, y = whole(*shape, dtype=dtype), whole(*shape, dtype=dtype)
    a, b = like(x, y)
    both = call("sub", a, b)
    wide = call("cast", both, dtype=total(call("cast", a, dtype=FLOAT), 0).dtype)
    results = both, total(wide, *along(a, dims)), call("max", b, dims=along(a, dims))
    check(fusion([a, b], *results), x, y, orders=ORDERS)


@pytest.mark.parametrize("name", ["two rows", "a plane of one row"])
def test_what_is_computed_of_bytes(name: str) -> None:
    """Compared, combined, and widened on the way to a float."""
    shape, dims = SHAPES[name]
    x, y = (torch.randint(-100, 100, shape, dtype=torch.int8) for _ in range(2))
    a, b = like(x, y)
    both, inner = call("sub", a, b), along(a, dims)
    is_larger = call("cast", call("gt", both, chain(both, "neg")), dtype=FLOAT)
    wide = call("cast", call("cast", both, dtype=DataType.Int), dtype=FLOAT)
    results = both, total(is_larger, *inner), total(wide, *inner), call("max", both, dims=inner)
    check(fusion([a, b], *results), x, y, orders=ORDERS)


def test_what_is_stored_in_another_order_ends_with_the_row() -> None:
    """The vectors of a row of 23130 reach beside it, where that order has other elements."""
    x = whole(9, 5, 257, 2)
    (a,) = like(x)
    turned = permute(a, 2, 3, 0, 1)
    less = call("sub", turned, spread(call("min", turned, dims=along(turned, 4)), turned, 4))
    check(fusion([a], chain(a, "neg"), less), x, options=STRICT, orders=ORDERS)


FLOAT = like(torch.empty(1))[0].dtype


@pytest.mark.parametrize("remainder", range(8))
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_plane_ends_anywhere_in_a_vector(dtype: torch.dtype, remainder: int) -> None:
    x = whole(1, 70_000 + remainder, dtype=dtype)
    (a,) = like(x)
    wide = call("cast", a, dtype=FLOAT)
    check(fusion([a], chain(a, "neg"), total(wide, 0, 1)), x)


@pytest.mark.parametrize("name", SHAPES)
def test_what_follows_from_the_sum_at_every_element(name: str) -> None:
    shape, dims = SHAPES[name]
    x = torch.randn(shape)
    (a,) = like(x)
    squares = total(call("mul", a, a), *along(a, dims))
    made = call("mul", a, spread(chain(squares, "rsqrt"), a, dims))
    wide = x.double()
    norm = wide.square().sum(tuple(range(-dims, 0)), True).sqrt()
    for (found,) in run_in_orders(fusion([a], made), x, options=Options())[1]:
        torch.testing.assert_close(found.double(), wide / norm, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", [(3, 97, 211), (1, 97, 211), (2, 3, 71, 97)])
def test_long_rows_are_streamed_for_what_lies_below_their_maximum(
    shape: tuple[int, ...], order: str
) -> None:
    x = torch.randn(shape) * 3
    (a,) = like(x)
    dims = (a.ndim - 2, a.ndim - 1)
    below = call("sub", a, spread(call("max", a, dims=dims), a, 2))
    plan = plan_of(
        fusion([a], chain(total(chain(below, "exp"), *dims), "log")),
        *copies([x]),
        options=Options(thread_order=order),
    )
    (found,) = plan.run(*copies([x]))
    wanted = torch.logsumexp(x.double(), dims) - x.double().amax(dims)
    torch.testing.assert_close(found.cpu().double(), wanted, rtol=1e-5, atol=1e-6)


# What reads elements that are no vectors of the plane, or not only those.
MOVED: dict[str, Made] = {
    "reversed": lambda x: flip(x, x.ndim - 1),
    "reversed rows of an image": lambda x: flip(x, x.ndim - 2),
    "one image back": lambda x: pad(piece(x, x.ndim - 2, 1, x.shape[-2]), (0, 0, 0, 1), 2.0),
    "one column back": lambda x: pad(piece(x, x.ndim - 1, 1, x.shape[-1]), (0, 1), 2.0),
}


@pytest.mark.parametrize("case", MOVED)
@pytest.mark.parametrize("name", ["a plane of one row", "two rows", "many rows of two dims"])
def test_elements_from_elsewhere_in_the_row(name: str, case: str) -> None:
    shape, dims = SHAPES[name]
    x = whole(*shape)
    (a,) = like(x)
    made = call("add", MOVED[case](a), chain(a, "abs"))
    check(fusion([a], made, total(made, *along(a, dims))), x)
    check(fusion([a], call("sub", made, spread(total(a, *along(a, dims)), a, dims))), x)


def test_rows_in_shared_memory_beside_others_of_the_plane() -> None:
    """What lies before the first of those is no part of memory."""
    x, y = whole(5, 30_001), whole(5, 30_001)
    a, b = like(x, y)
    back = flip(b, 0)
    sums = spread(total(call("mul", back, a), 1), a, 1)
    program = fusion([a, b], call("sub", back, call("mul", a, sums)))
    _, (kernel,) = cuda_kernels(program, x, y)
    assert "copy_async_within" in emit(kernel).text
    check(program, x, y)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("name", ["two rows", "rows of three dims", "rows in two dims"])
@pytest.mark.parametrize("is_shared", [False, True])
def test_weights_of_the_shape_of_a_row(name: str, count: int, is_shared: bool) -> None:
    shape, dims = SHAPES[name]
    x, weights = whole(*shape), [whole(*shape[-dims:]) for _ in range(count)]
    a, *others = like(x, *weights)
    made = a
    for weight in others:
        for dim in range(a.ndim - dims):
            weight = unsqueeze(weight, dim)
        made = call("mul", made, expand(weight, *shape))
    sums = total(made, *along(a, dims))
    stored = made if is_shared else call("sub", made, spread(sums, a, dims))
    check(fusion([a, *others], stored, sums), x, *weights)


@pytest.mark.parametrize("columns", [257, 1026, 4098, 50_258])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_odd_parts_of_longer_rows_are_read_in_vectors(columns: int, dtype: torch.dtype) -> None:
    """As both halves of rows of which one is normed: they begin anywhere in a vector too. The last
    row ends where memory does."""
    x = whole(5, columns, dtype=dtype)
    (tv,) = like(x)
    half = columns // 2
    u, v = piece(tv, 1, 0, half), piece(tv, 1, half, 2 * half)
    below = call("sub", v, spread(call("max", v, dims=(1,)), v, 1))
    program = fusion([tv], call("mul", u, below), call("min", below, dims=(1,)))
    assert check(program, x, orders=ORDERS).launches == 1
    _, (kernel,) = cuda_kernels(program, x)
    assert f"{16 // dtype.itemsize} x " in str(kernel)
    assert "(T0[" not in emit(kernel).text  # an element


@pytest.mark.parametrize(("batch", "first"), [(1, 0), (3, 0), (3, 1)])
@pytest.mark.parametrize("columns", [331, 20_001])
def test_rows_of_a_part_of_a_batch_are_read_in_vectors(
    columns: int, batch: int, first: int
) -> None:
    """As logits of all tokens but the last, beside the one that each of them had to predict. Of all
    but the first ones the last row ends where memory does."""
    x, target = whole(batch, 5, columns, dtype=torch.bfloat16), torch.randint(columns, (batch, 4))
    tv, t = like(x, target)
    rows = call(
        "cast", reshape(piece(tv, 1, first, first + 4), batch * 4, columns), dtype=DataType.Float
    )
    below = call("sub", rows, spread(call("max", rows, dims=(1,)), rows, 1))
    chosen = call("take_along_axis", below, reshape(t, batch * 4, 1), dim=1)
    losses = call("sub", total(below, 1), reshape(chosen, batch * 4))
    program = fusion([tv, t], losses)
    assert check(program, x, target, orders=ORDERS).launches == 1
    _, (kernel,) = cuda_kernels(program, x, target)
    text = emit(kernel).text
    assert "tf::bf16, 8," in text
    assert (", is_whole)" in text) == (first > 0)  # all at once, but of the last row


def test_what_columns_have_alike_is_read_beside_vectors_of_a_plane() -> None:
    x, w, scale = whole(257, 311), whole(311), whole(257)
    a, b, c = like(x, w, scale)
    made = call("mul", call("add", a, expand(unsqueeze(b, 0), 257, 311)), spread(c, a, 1))
    check(fusion([a, b, c], made, total(made, 0, 1)), x, w, scale)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("order", ORDERS)
def test_groups_of_channels(groups: int, order: str) -> None:
    """Of several, channels tell only inside a row which group they are of: vectors are its own."""
    shape = 5, 6, 17, 19
    x = torch.randn(shape)
    (a,) = like(x)
    parts = reshape(a, 5, groups, 6 // groups, 17, 19)
    mean = call("mul", total(parts, 2, 3, 4), sc.constant(groups / prod(shape[1:])))
    away = reshape(call("sub", parts, spread(mean, parts, 3)), *shape)
    plan = plan_of(fusion([a], away), *copies([x]), options=Options(thread_order=order))
    assert plan.launches == 1
    (found,) = plan.run(*copies([x]))
    wide = x.double().view(5, groups, 6 // groups, 17, 19)
    wanted = wide - wide.mean((2, 3, 4), True)
    torch.testing.assert_close(found.cpu().double(), wanted.view(shape), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["bounds", "nan"])
@pytest.mark.parametrize("name", ["a plane of one row", "two rows", "rows of three dims"])
def test_checks_hold(name: str, mode: str) -> None:
    shape, dims = SHAPES[name]
    x = whole(*shape)
    (a,) = like(x)
    options = replace(STRICT, check=mode)
    check(fusion([a], chain(a, "neg"), total(a, *along(a, dims))), x, options=options)


@pytest.mark.parametrize("shape", [(0, 7), (3, 0), (1, 1), (1, 2)])
def test_planes_of_nothing_and_of_one(shape: tuple[int, int]) -> None:
    x = whole(*shape)
    (a,) = like(x)
    check(fusion([a], chain(a, "neg"), total(a, 0, 1)), x)


LARGE = {
    "a plane of one row": ((1335, 50257), 2),
    "three long rows": ((3, 20_000_001), 1),
    "images": ((64, 3, 1001, 333), 3),
}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_large_planes_are_moved_in_whole_vectors(name: str, dtype: torch.dtype) -> None:
    shape, dims = LARGE[name]
    x = torch.empty(shape, dtype=dtype, device="meta")
    a, b = like(x, x)
    both = call("sub", a, b)
    sums = total(call("mul", both, both), *along(a, dims)), total(a, *along(a, dims))
    _, (kernel,) = cuda_kernels(fusion([a, b], both, *sums), x, x, target=H200)
    assert isinstance(kernel, RowKernel)
    assert (kernel.lanes, kernel.has_edges) == (16 // dtype.itemsize, True)
    assert " where " not in str(kernel)
    text = emit(kernel).text
    assert text.count(f"tf::load<{TYPES[dtype]}, {kernel.lanes}, 16>(") == 2
    assert text.count("tf::store_hinted<16>(") == 1
    assert cubin_of(kernel).spill_bytes == 0


TYPES = {torch.bfloat16: "tf::bf16", torch.float16: "tf::f16", torch.float32: "float"}


def test_rows_of_one_element_that_is_read_are_stored_as_they_are() -> None:
    """No row of them is in memory to be copied to shared memory."""
    x = torch.randn(1, dtype=torch.bfloat16).expand(33)
    (a,) = like(x)
    least = expand(unsqueeze(call("min", a, dims=(0,)), 0), 33)
    check(fusion([a], call("where", call("eq", a, least), a, chain(a, "neg"))), x, orders=ORDERS)
