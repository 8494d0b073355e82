"""Planes of odd rows that are walked as one axis: the values of every element, in every layout."""

from __future__ import annotations

import pytest
import torch

from tests.pairwise import with_halves
from tests.programs import (
    cat,
    chain,
    check,
    cubin_of,
    cuda_kernels,
    drawn,
    expand,
    fusion,
    ints,
    like,
    reshape,
    total,
    unsqueeze,
)
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.map_ir import Kernel

pytestmark = [pytest.mark.usefixtures("device"), pytest.mark.sanitizer]
SHAPES = [
    (40, 3),
    (33, 5),
    (16, 7),
    (56, 9),
    (64, 49),
    (9, 257),
    (8, 1031),
    (3, 4097),
    (1, 1031),
    (0, 257),
    (40, 1),
]
Case = tuple[Fusion, list[torch.Tensor]]


def long_columns(count: int) -> TensorView:
    start, step = sc.constant(0), sc.constant(1)
    return call("iota", start, step, length=ints([count]), dtype=DataType.Int)


@pytest.mark.parametrize(
    ("shape", "dtype"), with_halves(SHAPES, torch.float32, torch.int8), ids=str
)
def test_rows_and_columns_meet_every_element(shape: tuple[int, int], dtype: torch.dtype) -> None:
    rows, columns = shape
    x, bias, scale = drawn(*shape, dtype=dtype), drawn(columns, dtype=dtype), drawn(rows, 1)
    a, b, c = like(x, bias, scale)
    check(fusion([a, b, c], call("mul", call("add", a, b), c)), x, bias, scale)


@pytest.mark.parametrize("columns", [5, 257, 1031])
def test_values_of_several_widths_share_a_vector(columns: int) -> None:
    x, y, w = drawn(12, columns), drawn(12, columns, dtype=torch.float32), drawn(columns)
    a, b, c = like(x, y, w)
    made = call("add", call("mul", a, c), b)
    check(fusion([a, b, c], made, call("cast", made, dtype=DataType.BFloat16)), x, y, w)


@pytest.mark.parametrize("columns", [3, 257, 1031])
@pytest.mark.parametrize("lies", ["rows apart", "columns first", "shifted", "expanded", "dense"])
def test_every_layout_of_the_plane_is_read_right(lies: str, columns: int) -> None:
    wide = drawn(11 * (columns + 3) + 1)
    x = {
        "rows apart": lambda: wide[: 11 * (columns + 3)].view(11, -1)[:, :columns],
        "columns first": lambda: wide[: 11 * columns].view(columns, 11).T,
        "shifted": lambda: wide[1 : 1 + 11 * columns].view(11, columns),
        "expanded": lambda: wide[:columns].expand(11, columns),
        "dense": lambda: wide[: 11 * columns].view(11, columns),
    }[lies]()
    bias = drawn(columns)
    a, b = like(x, bias)
    check(fusion([a, b], call("add", a, b)), x, bias)


@pytest.mark.parametrize("shape", [(64, 2, 12, 1), (32, 48), (128, 12)], ids=str)
def test_rows_apart_are_read_by_rows_of_another_length(shape: tuple[int, ...]) -> None:
    """Long rows, whose ends no index of the store tells."""
    x = drawn(6, 258, dtype=torch.float64)[:, :256]
    (a,) = like(x)
    check(fusion([a], chain(reshape(a, *shape), "neg")), x)


@pytest.mark.parametrize("images", [1, 8, 35])
def test_short_rows_of_sums_are_found_by_threads_that_have_several(images: int) -> None:
    x = drawn(images, 3, 5, 2, 7, 2)
    (a,) = like(x)
    check(fusion([a], total(a, 3, 5)), x)


@pytest.mark.parametrize("wide", [7, 14, 20])
def test_places_of_pools_are_told_from_the_largest_of_each(wide: int) -> None:
    x, g = drawn(9, 5, 2, wide, 2), drawn(9, 5, wide)
    a, b = like(x, g)

    def whole(tv: TensorView) -> TensorView:
        return expand(unsqueeze(unsqueeze(tv, 2), 4), *x.shape)

    made = call("where", call("eq", a, whole(call("max", a, dims=(2, 4)))), whole(b), a)
    check(fusion([a, b], made), x, g)


@pytest.mark.parametrize("columns", [3, 257, 1031])
def test_a_plane_updated_in_place_is_read_where_it_is_written(columns: int) -> None:
    x, bias = drawn(13, columns), drawn(columns)
    a, b = like(x, bias)
    check(fusion([a, b], writes=[(call("add", a, b), a)]), x, bias)


@pytest.mark.parametrize("columns", [5, 1031])
def test_three_axes_are_read_by_their_own_operands(columns: int) -> None:
    x, places, bias = drawn(4, 6, columns), drawn(6, columns), drawn(columns)
    a, b, c = like(x, places, bias)
    check(fusion([a, b, c], call("add", call("add", a, b), c)), x, places, bias)


@pytest.mark.parametrize("columns", [7, 1031])
def test_a_column_that_is_compared_is_that_of_the_lane(columns: int) -> None:
    """As in the gradient of a cross entropy."""
    x, target = drawn(24, columns), torch.randint(0, columns, (24,))
    a, t = like(x, target)
    is_target = call("eq", unsqueeze(t, 1), long_columns(columns))
    check(fusion([a, t], call("where", is_target, call("neg", a), a)), x, target)


def test_a_row_that_is_repeated_is_stored_at_every_row() -> None:
    x = drawn(1031)
    (a,) = like(x)
    check(fusion([a], expand(unsqueeze(chain(a, "neg"), 0), 19, 1031)), x)


def test_pieces_of_odd_rows_keep_their_places() -> None:
    x, bias = drawn(6, 257), drawn(257)
    a, b = like(x, bias)
    check(fusion([a, b], cat(call("add", a, b), a)), x, bias)


def test_short_sums_of_odd_rows_are_summed_at_their_place() -> None:
    x, bias = drawn(4, 6, 257), drawn(257)
    a, b = like(x, bias)
    check(fusion([a, b], total(call("add", a, b), 0)), x, bias)


@pytest.mark.parametrize("shape", [(333, 2, 41, 2), (70, 2, 9, 2), (9, 2, 601, 2)], ids=str)
def test_squares_of_odd_rows_are_summed_at_their_place(shape: tuple[int, ...]) -> None:
    x = drawn(*shape)
    (a,) = like(x)
    check(fusion([a], total(chain(a, "neg"), 1, 3)), x)


@pytest.mark.parametrize("shape", [(16384, 4097), (4096, 50257)], ids=str)
@pytest.mark.parametrize("make", ["bias", "row"])
def test_large_planes_are_moved_in_whole_vectors_and_spill_nothing(
    shape: tuple[int, int], make: str
) -> None:
    x = torch.empty(shape, dtype=torch.bfloat16)
    other = torch.empty(shape[1] if make == "bias" else (shape[0], 1), dtype=torch.bfloat16)
    a, b = like(x, other)
    _, (kernel,) = cuda_kernels(fusion([a, b], chain(call("add", a, b), "erf")), x, other)
    assert isinstance(kernel, Kernel)
    ((body,),) = kernel.groups
    assert body.inside is not None
    for part in (body, body.inside[1]):
        assert [s.access_bytes for s in part.stores] == [16]
        assert 16 in [load.access_bytes for load in part.loads]
    assert cubin_of(kernel).spill_bytes == 0
