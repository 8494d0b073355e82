"""Pads, cats and rolls whose pieces are narrow, stored in whole vectors: the bits are eager's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import pytest
import torch

from tests.pairwise import HALVES, with_halves
from tests.programs import (
    cat,
    chain,
    check,
    cubin_of,
    cuda_kernels,
    doubled,
    drawn,
    expand,
    flip,
    fusion,
    like,
    pad,
    permute,
    piece,
    rolled,
)
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.map_ir import Body, Kernel

pytestmark = [pytest.mark.usefixtures("device"), pytest.mark.sanitizer]
OTHERS = torch.float32, torch.int8
# Of 4096 elements, as many as the host wants, and of fewer.
SHAPES = [(7, 28, 28), (3, 41, 37), (5, 14, 14, 7), (1, 4099), (9001,), (64, 1, 67), (2, 3, 5)]


def mirrored(x: TensorView, count: int, dim: int) -> TensorView:
    """`x` with so many elements more on both sides of a dim, as a mirror at its end shows them."""
    size = x.shape[dim]
    first, last = piece(x, dim, 1, 1 + count), piece(x, dim, size - 1 - count, size - 1)
    return cat(flip(first, dim), x, flip(last, dim), dim=dim)


def edged(x: TensorView, count: int, dim: int) -> TensorView:
    """`x` with so many elements more on both sides of a dim, which are its first and its last."""
    size, shape = x.shape[dim], list(x.shape)
    shape[dim] = count
    first, last = piece(x, dim, 0, 1), piece(x, dim, size - 1, size)
    return cat(expand(first, *shape), x, expand(last, *shape), dim=dim)


def body_of(made: TensorView, *inputs: TensorView, of: Sequence[torch.Tensor]) -> Body:
    _, (kernel,) = cuda_kernels(fusion(inputs, made), *of)
    assert isinstance(kernel, Kernel)
    ((body,),) = kernel.groups
    return body


@pytest.mark.parametrize(("shape", "dtype"), with_halves(SHAPES, *OTHERS), ids=str)
def test_a_pad_of_every_axis_is_filled_around(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = drawn(*shape, dtype=dtype)
    (a,) = like(x)
    check(fusion([a], chain(pad(a, [1, 2] * x.ndim, 3), "neg")), x)


@pytest.mark.parametrize(
    "widths", [[-1, 2], [3, -2, 1, 1], [-1, -1, 5, 0], [0, 1], [70, 0]], ids=str
)
def test_a_pad_that_cuts_is_a_slice_there(widths: list[int]) -> None:
    x = drawn(97, 61)
    (a,) = like(x)
    check(fusion([a], pad(a, widths, -1.5)), x)


@pytest.mark.parametrize("value", [0.0, 2.5, float("inf"), float("nan")])
def test_what_lies_beside_a_pad_is_no_part_of_it(value: float) -> None:
    x = drawn(80, 57)
    x[:, 0], x[:, -1], x[0], x[-1] = float("nan"), float("inf"), float("-inf"), float("nan")
    (a,) = like(x)
    check(fusion([a], chain(pad(a, [1, 1, 1, 1], value), "abs")), x)


@pytest.mark.parametrize(("shape", "dtype"), with_halves(SHAPES, *OTHERS), ids=str)
def test_a_roll_of_every_axis_comes_around(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = drawn(*shape, dtype=dtype)
    made = a = like(x)[0]
    for dim, size in enumerate(shape):
        made = rolled(made, 3 % size, dim) if size > 3 else made
    check(fusion([a], chain(made, "neg")), x)


@pytest.mark.parametrize("border", [mirrored, edged])
@pytest.mark.parametrize("count", [1, 3])
def test_borders_repeat_what_lies_inside(
    border: Callable[[TensorView, int, int], TensorView], count: int
) -> None:
    x = drawn(7, 28, 31)
    (a,) = like(x)
    check(fusion([a], chain(border(border(a, count, 2), count, 1), "neg")), x)


@pytest.mark.parametrize("dtype", [*HALVES, *OTHERS], ids=str)
@pytest.mark.parametrize("shape", [(5, 37, 41), (9, 7, 40), (2, 3, 5), (3, 11, 601)], ids=str)
def test_odd_rows_are_stored_twice(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = drawn(*shape, dtype=dtype)
    (a,) = like(x)
    check(fusion([a], chain(doubled(a), "neg")), x)


@pytest.mark.parametrize("widths", [(31, 33), (1, 90), (17, 1, 50), (64, 7, 3, 5)], ids=str)
def test_a_cat_of_odd_widths_has_each_part(widths: tuple[int, ...]) -> None:
    parts = [drawn(71, width) for width in widths]
    inputs = like(*parts)
    check(fusion(inputs, cat(*inputs), cat(*(chain(v, "neg") for v in inputs))), *parts)


@pytest.mark.parametrize("offset", [0, 1, 3])
@pytest.mark.parametrize("lies", ["dense", "rows apart", "columns first", "expanded"])
def test_every_layout_of_what_is_padded_is_read_right(lies: str, offset: int) -> None:
    memory = drawn(66 * 80 + 8)[offset:]
    x = {
        "dense": lambda: memory[: 66 * 71].view(66, 71),
        "rows apart": lambda: memory[: 66 * 80].view(66, 80)[:, 2:73],
        "columns first": lambda: memory[: 66 * 71].view(71, 66).T,
        "expanded": lambda: memory[:71].expand(66, 71),
    }[lies]()
    (a,) = like(x)
    check(fusion([a], pad(a, [1, 1, 2, 0])), x)


@pytest.mark.parametrize("columns", [65, 1031])
def test_gathered_rows_of_odd_length_are_copied(columns: int) -> None:
    weight, chosen = drawn(33, columns), torch.randint(0, 33, (77,))
    w, c = like(weight, chosen)
    rows = call("index_select", w, c, dim=0)
    check(fusion([w, c], rows), weight, chosen)
    check(fusion([w, c], pad(rows, [1, 1], 4.0)), weight, chosen)


def test_short_rows_inside_of_the_long_ones_that_a_roll_cuts_are_read_whole() -> None:
    x = drawn(14, 101, 7, 5)
    (a,) = like(x)
    check(fusion([a], call("add", a, rolled(a, 1, 0))), x)


def test_what_is_joined_to_nothing_is_read_whole_inside_of_long_rows() -> None:
    x = torch.rand(196, 7).gt(0.5).expand(49, 196, 7)
    (a,) = like(x)
    check(fusion([a], cat(a, dim=2)), x)


def test_values_are_computed_around_pads_and_cats() -> None:
    x, y = drawn(60, 75), drawn(60, 77)
    a, b = like(x, y)
    made = call("mul", pad(chain(a, "neg"), [1, 1], 2.0), b)
    check(fusion([a, b], cat(made, flip(made, 1), piece(made, 1, 3, 40))), x, y)
    check(fusion([a, b], permute(made, 1, 0)), x, y)


@pytest.mark.parametrize(
    ("shape", "make"),
    [
        ((334, 256, 28, 28), lambda a: pad(a, [1, 1, 1, 1])),
        ((334, 64, 56, 56), lambda a: rolled(rolled(a, 53, 2), 53, 3)),
        ((5349, 64, 14, 14), lambda a: rolled(rolled(a, 11, 2), 11, 3)),
        ((4096, 4097), lambda a: pad(a, [0, 2])),
        ((64, 19, 37, 41), doubled),
        ((64, 64, 56, 56), lambda a: mirrored(mirrored(a, 3, 3), 3, 2)),
        ((64, 64, 64, 64), lambda a: edged(edged(a, 2, 3), 2, 2)),
    ],
)
def test_large_planes_are_stored_in_whole_vectors_and_spill_nothing(
    shape: tuple[int, ...], make: object
) -> None:
    assert callable(make)
    x = torch.empty(shape, dtype=torch.bfloat16)
    (a,) = like(x)
    made = make(a)
    body = body_of(made, a, of=[x])
    assert body.threads * body.stores[0].length == prod(made.shape)
    assert [s.access_bytes for s in body.stores] == [16]
    assert len(body.loads) == 1
    _, (kernel,) = cuda_kernels(fusion([a], made), x)
    assert cubin_of(kernel).spill_bytes == 0
