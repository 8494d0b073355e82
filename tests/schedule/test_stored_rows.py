"""Rows are stored where they are read, in whatever order of their dims."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.devices import ORDERS
from tests.programs import (
    H200,
    cat,
    chain,
    check,
    expand,
    fusion,
    like,
    pad,
    permute,
    piece,
    reshape,
    total,
    unsqueeze,
    whole,
)
from tests.schedule.segments import floats, segment_of
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule import rows


def normalised(x: TensorView) -> TensorView:
    return call("mul", x, unsqueeze(total(chain(x, "exp"), x.ndim - 1), x.ndim - 1))


@pytest.mark.parametrize("order", [(0, 2, 1, 3), (2, 1, 0, 3), (1, 2, 0, 3)])
def test_heads_that_are_stored_in_another_order_are_one_kernel(order: tuple[int, ...]) -> None:
    x = floats(2, 6, 4, 128)
    segment = segment_of([x], permute(normalised(x), *order))
    assert rows.reject(segment, H200) is None
    schedule = str(rows.schedule(segment, H200))
    (stored,) = (line for line in schedule.splitlines() if "store whole rows" in line)
    dims = ["(group/24)", "((group/4)%6)", "(group%4)"]
    assert f"[{', '.join(dims[k] for k in order[:3])}, " in stored


def test_what_mixes_rows_and_columns_is_refused() -> None:
    x = floats(2, 6, 4, 128)
    segment = segment_of([x], permute(normalised(x), 0, 3, 1, 2))
    assert rows.reject(segment, H200) is not None


def stacked(x: TensorView, dim: int) -> TensorView:
    """Three numbers of each row, side by side along a new dim."""
    found = [call(name, x, dims=(x.ndim - 1,)) for name in ("max", "min", "sum")]
    return cat(*(unsqueeze(tv, dim) for tv in found), dim=dim)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_a_few_elements_of_each_row_are_stored_where_they_lie(dim: int) -> None:
    x = floats(6, 4, 128)
    segment = segment_of([x], stacked(x, dim))
    assert rows.reject(segment, H200) is None
    (line,) = (k for k in str(rows.schedule(segment, H200)).splitlines() if "element a row" in k)
    row = ["(group/4)", "(group%4)"]
    places = (", ".join([*row[:dim], str(k), *row[dim:]]) for k in range(3))
    assert line.endswith(", ".join(f"T7[{place}]" for place in places))


def test_elements_of_other_rows_are_refused() -> None:
    x = floats(24, 128)
    largest = call("max", x, dims=(1,))
    ends = cat(unsqueeze(largest, 0), unsqueeze(call("flip", largest, dims=(0,)), 0), dim=0)
    assert rows.reject(segment_of([x], ends), H200) is not None


@pytest.mark.usefixtures("device", "wide_host")
@pytest.mark.parametrize("shape", [(37, 129), (999, 65), (3, 50, 300), (2, 3, 40000)])
@pytest.mark.parametrize("dim", [0, -1])
def test_what_is_stacked_is_one_launch_with_the_same_values(
    shape: tuple[int, ...], dim: int
) -> None:
    x = whole(*shape, dtype=torch.bfloat16)
    (tv,) = like(x)
    plan = check(fusion([tv], stacked(tv, dim % len(shape))), x)
    assert plan.launches == 1


def test_a_whole_row_of_few_columns_is_no_few_elements() -> None:
    x = floats(512, 12)
    summed = call("sum", x, dims=(1,), walked=512)
    y = call("mul", x, expand(unsqueeze(summed, 1), 512, 12))
    assert "store whole rows" in str(rows.schedule(segment_of([x], y), H200))


@pytest.mark.parametrize(
    ("dim", "second"),
    [
        (0, "6 + (group/4), (group%4), 4*vector + lane"),
        (1, "(group/4), 4 + (group%4), 4*vector + lane"),
        (2, "(group/4), (group%4), 128 + 4*vector + lane"),
    ],
)
def test_both_halves_are_rows_of_one_kernel(dim: int, second: str) -> None:
    x = floats(6, 4, 128)
    segment = segment_of([x], cat(normalised(x), x, dim=dim))
    assert rows.reject(segment, H200) is None
    (line,) = (k for k in str(rows.schedule(segment, H200)).splitlines() if "whole rows" in k)
    assert line.endswith(f"T5[(group/4), (group%4), 4*vector + lane], T5[{second}]")


def test_halves_that_read_other_rows_are_refused() -> None:
    x = floats(24, 128)
    both = cat(normalised(x), call("flip", normalised(x), dims=(0,)), dim=1)
    assert rows.reject(segment_of([x], both), H200) is not None


@pytest.mark.usefixtures("device", "wide_host")
@pytest.mark.parametrize("shape", [(37, 256), (7, 3, 90), (5, 50), (3, 33000), (3, 2514)])
@pytest.mark.parametrize("dim", [0, -1])
def test_the_gradient_of_halves_is_one_launch(shape: tuple[int, ...], dim: int) -> None:
    """As of u * norm(v) where x = [u, v]: of any length, and wherever in a vector v begins."""
    x, g = whole(*shape), whole(*shape[:-1], shape[-1] // 2)
    tv, grad = like(x, g)
    half = shape[-1] // 2
    u, v = (piece(tv, len(shape) - 1, at, at + half) for at in (0, half))
    gated = call("mul", u, below_largest(v))
    both = cat(call("mul", grad, gated), below_largest(call("mul", grad, u)), dim=dim % len(shape))
    assert check(fusion([tv, grad], both), x, g, orders=ORDERS).launches == 1


@pytest.mark.usefixtures("device")
def test_rows_of_one_vector_are_stored_in_vectors_beside_a_running_sum() -> None:
    """Their places differ in the lane alone, as there is no number of a vector."""
    x = whole(4, 8, 4, dtype=torch.float32)
    (tv,) = like(x)
    sums = call("cumsum", tv, dim=2, reverse=False)
    plan = check(fusion([tv], cat(*[permute(tv, 1, 0, 2)] * 16, dim=0), sums), x, orders=ORDERS)
    assert plan.launches == 1


def below_largest(x: TensorView) -> TensorView:
    largest = call("max", x, dims=(x.ndim - 1,))
    return call("sub", x, expand(unsqueeze(largest, x.ndim - 1), *x.shape))


def rolled(x: TensorView, by: int, *dims: int) -> TensorView:
    for dim in dims:
        ends = piece(x, dim, by, x.shape[dim]), piece(x, dim, 0, by)
        x = cat(*ends, dim=dim)
    return x


def tiles(x: TensorView, size: int) -> TensorView:
    """[n, h, w, c] => [tiles, size * size, c]"""
    n, h, w, c = x.shape
    split = permute(reshape(x, n, h // size, size, w // size, size, c), 0, 1, 3, 2, 4, 5)
    return reshape(split, -1, size * size, c)


MOVED: dict[str, tuple[tuple[int, ...], Callable[[TensorView], TensorView]]] = {
    "tiles": ((2, 12, 6, 72), lambda x: tiles(x, 3)),
    "rolled": ((2, 11, 5, 72), lambda x: rolled(x, 3, 1)),
    "rolled both ways": ((2, 11, 5, 72), lambda x: rolled(x, 2, 1, 2)),
    "rolled tiles": ((2, 9, 15, 72), lambda x: tiles(rolled(x, 2, 1, 2), 3)),
    "rolled tiles of an odd number": ((2, 9, 6, 49), lambda x: tiles(rolled(x, 1, 1, 2), 3)),
    "rolled tiles of long rows": ((1, 4, 6, 4100), lambda x: tiles(rolled(x, 1, 1, 2), 2)),
    "rolled by what windows do not divide": ((1, 10, 10, 40), lambda x: tiles(rolled(x, 4, 2), 5)),
    "turned and rolled": ((5, 7, 72), lambda x: rolled(permute(x, 1, 0, 2), 3, 0)),
}


@pytest.mark.usefixtures("device", "wide_host")
@pytest.mark.sanitizer
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("name", MOVED)
def test_rows_that_are_moved_are_stored_by_the_launch_that_reduces_them(
    name: str, dtype: torch.dtype
) -> None:
    shape, move = MOVED[name]
    x = whole(*shape, dtype=dtype)
    (tv,) = like(x)
    assert check(fusion([tv], move(below_largest(tv))), x, orders=ORDERS).launches == 1


def moved(x: TensorView, by: int) -> TensorView:
    """Zeros where no row moves to."""
    first, last = max(by, 0), x.shape[0] + min(by, 0)
    return pad(piece(x, 0, first, last), [0, 0] * (x.ndim - 1) + [max(-by, 0), max(by, 0)])


@pytest.mark.usefixtures("device", "wide_host")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_squares_are_stored_where_they_lie_by_the_launch_that_reduces_them(
    dtype: torch.dtype,
) -> None:
    """As of a weight that is rounded in squares, each by the largest of its elements."""
    x = whole(15, 96, dtype=dtype)
    (tv,) = like(x)
    squares = reshape(tv, 3, 5, 3, 32)
    largest = call("max", chain(squares, "abs"), dims=(1, 3))
    spread = expand(unsqueeze(unsqueeze(largest, 1), 3), *squares.shape)
    scaled = reshape(call("div", squares, spread), 15, 96)
    assert check(fusion([tv], scaled, largest), x, orders=ORDERS).launches == 1


OTHERS: dict[str, Callable[[TensorView], TensorView]] = {
    "some rows twice": lambda x: cat(piece(x, 0, 0, 20), piece(x, 0, 0, 20), dim=0),
    "computed behind it": lambda x: call("mul", rolled(x, 3, 0), rolled(x, 3, 0)),
    "rows of two": lambda x: call("add", rolled(x, 3, 0), x),
    "rolled along the row": lambda x: rolled(x, 5, 1),
    "filled up": lambda x: pad(piece(x, 0, 0, 37), [0, 0, 3, 0]),
    "moved up, then computed": lambda x: call("neg", moved(reshape(x, 40, 8, 9), 1)),
    "a row alone, then computed": lambda x: call("neg", moved(reshape(x, 40, 8, 9), -39)),
    "the gradient of what is rolled": lambda x: call(
        "add", moved(reshape(x, 40, 8, 9), 1), moved(reshape(x, 40, 8, 9), -39)
    ),
}


@pytest.mark.usefixtures("device", "wide_host")
@pytest.mark.parametrize("name", OTHERS)
def test_whatever_else_is_moved_has_the_same_values(name: str) -> None:
    x = whole(40, 72, dtype=torch.bfloat16)
    (tv,) = like(x)
    check(fusion([tv], OTHERS[name](below_largest(tv))), x)
