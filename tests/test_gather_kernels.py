"""Loads whose place another tensor holds: values, layouts, templates, and indices out of range."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch

from tests.devices import ORDERS, here
from tests.pairwise import pairwise
from tests.programs import (
    STRICT,
    cat,
    chain,
    check,
    cubin_of,
    cuda_kernels,
    expand,
    flip,
    fusion,
    ints,
    like,
    pad,
    permute,
    piece,
    reshape,
    run,
    run_in_orders,
    stop,
    total,
    unsqueeze,
)
from thunder_fuser.codegen.emit import emit
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.options import Options
from thunder_fuser.runtime.errors import IndexRangeError

pytestmark = pytest.mark.usefixtures("device")


def rows(x: TensorView, index: TensorView, dim: int = 0) -> TensorView:
    return call("index_select", x, index, dim=dim)


def along(x: TensorView, index: TensorView, dim: int) -> TensorView:
    return call("take_along_axis", x, index, dim=dim)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.bool, torch.complex64])
@pytest.mark.parametrize("shape", [(50, 24), (7, 37), (1, 8), (13, 1), (5, 3, 16)], ids=str)
def test_rows_of_a_table(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, index = (torch.randn(shape) * 3).to(dtype), torch.randint(shape[0], (11,))
    a, i = like(x, index)
    check(fusion([a, i], rows(a, i)), x, index)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.uint8])
@pytest.mark.parametrize("columns", [257, 270])
def test_odd_rows_are_gathered_in_aligned_vectors(columns: int, dtype: torch.dtype) -> None:
    """Of a table whose rows begin anywhere, beside a value per row and one per column."""
    table = torch.randint(0, 5, (30, columns + 3)).to(dtype)[:, 3:]
    index = torch.randint(30, (3, 7))
    scale, bias = (torch.randint(0, 5, shape).to(dtype) for shape in ((3, 7), (columns,)))
    a, i, s, b = like(table, index, scale, bias)
    picked = reshape(rows(a, reshape(i, 21)), 3, 7, columns)
    program = fusion([a, i, s, b], call("add", call("mul", picked, unsqueeze(s, 2)), b))
    for (found,) in run_in_orders(program, table, index, scale, bias)[1]:
        assert torch.equal(found, table[index] * scale[:, :, None] + bias)


def test_vectors_of_odd_rows_are_put_together_of_words() -> None:
    x, index = torch.empty(900, 577, dtype=torch.bfloat16), torch.zeros(4000, dtype=torch.int64)
    a, i = like(x, index)
    _, (kernel,) = cuda_kernels(fusion([a, i], rows(a, i)), x, index)
    source = emit(kernel).text
    assert source.count("tf::load_row<tf::bf16, 8>(T0 + ") == 1
    assert source.count("tf::store_row<16, 1>(T2 + ") == 1
    assert cubin_of(kernel).spill_bytes == 0


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_any_axis_at_any_integers(dim: int, dtype: torch.dtype) -> None:
    x = torch.randn(5, 3, 17)
    index = torch.randint(x.shape[dim], (19,)).to(dtype)
    a, i = like(x, index)
    check(fusion([a, i], chain(rows(a, i, dim), "neg")), x, index)
    full = torch.randint(x.shape[dim], [9 if k == dim else n for k, n in enumerate(x.shape)])
    a, i = like(x, full.to(dtype))
    check(fusion([a, i], along(chain(a, "neg"), i, dim)), x, full.to(dtype))


def test_nothing_is_gathered_from_nothing() -> None:
    for shape in ((0, 8), (4, 0), (4, 8)):
        x, index = torch.randn(shape), torch.empty(0, dtype=torch.int64)
        a, i = like(x, index)
        check(fusion([a, i], rows(a, i)), x, index)


@pytest.mark.parametrize("stores_rows", [False, True])
def test_a_place_in_a_row_that_passes_through_shared_memory(stores_rows: bool) -> None:
    """As of the classes of a cross entropy: 33 of 16 bits are no vectors."""
    x, index = torch.randn(70, 33).bfloat16(), torch.randint(33, (70, 1))
    a, i = like(x, index)
    largest = expand(unsqueeze(call("max", a, dims=(1,)), 1), 70, 33)
    below = call("sub", a, largest)
    picked = along(below, i, 1)
    plan = check(fusion([a, i], *([below] if stores_rows else []), picked), x, index)
    assert plan.launches == 1


LAYOUTS = {
    "transposed": lambda: torch.randn(16, 9).t(),
    "strided": lambda: torch.randn(9, 40)[:, ::2],
    "expanded": lambda: torch.randn(9, 1).expand(9, 16),
    "one row": lambda: torch.randn(1, 16).expand(9, 16),
    "misaligned": lambda: torch.randn(9 * 16 + 1)[1:].view(9, 16),
    "wide": lambda: torch.randn(9, 24)[:, 3:19],
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_table_may_lie_anyhow(name: str) -> None:
    x, index = LAYOUTS[name](), torch.randint(9, (2, 13))[:, ::2][1]
    a, i = like(x, index)
    check(fusion([a, i], rows(a, i)), x, index)


def test_views_of_a_table_and_of_its_rows() -> None:
    x, index = torch.randn(6, 4, 10), torch.randint(24, (5, 3))
    a, i = like(x, index)
    flat = reshape(flip(a, 1), 24, 10)
    taken = reshape(rows(flat, reshape(i, 15)), 5, 3, 10)
    check(fusion([a, i], permute(taken, 2, 0, 1), piece(taken, 2, 3, 9)), x, index)


def test_a_joined_table_is_read_on_the_side_that_holds_the_row() -> None:
    x, y, index = torch.randn(6, 12), torch.randn(9, 12), torch.randint(15, (20,))
    a, b, i = like(x, y, index)
    check(fusion([a, b, i], rows(cat(chain(a, "neg"), b, dim=0), i)), x, y, index)


def test_padding_around_gathered_rows_reads_no_index() -> None:
    x, index = torch.randn(6, 12), torch.randint(1, 7, (5,))
    a, i = like(x, index)
    before = call("sub", i, sc.constant(1))
    check(fusion([a, i], pad(rows(a, before), [2, 1, 3, 2], 7.0)), x, index)


def test_an_index_may_be_computed_and_gathered_itself() -> None:
    x, first, second = torch.randn(8, 12), torch.randint(8, (5,)), torch.randint(5, (7,))
    a, i, j = like(x, first, second)
    chosen = rows(call("sub", sc.constant(7), i), j)
    check(fusion([a, i, j], rows(rows(a, i), j), rows(a, chosen)), x, first, second)


def test_ten_gathers_of_gathers() -> None:
    x, index = torch.randn(6, 12), torch.randint(6, (6,))
    a, i = like(x, index)
    tv = a
    for _ in range(10):
        tv = rows(chain(tv, "neg"), i)
    plan = check(fusion([a, i], tv), x, index)
    assert plan.launches == 2


def test_an_index_that_is_turned_is_located_inside_its_square() -> None:
    """Where no lanes are, no index is the same in all of them either."""
    (index,) = like(i := torch.randint(96, (257, 96), dtype=torch.int32).t())
    table = call("full", sc.constant(2.5), shape=ints(index.shape), dtype=DataType.Float)
    program = fusion([index], along(table, index, 0))
    (kernel,) = cuda_kernels(program, i)[1]
    assert "square" in emit(kernel).text
    check(program, i, orders=ORDERS)


@pytest.mark.parametrize("kind", [rows, along])
def test_an_index_is_computed_before_a_leaf_is_read_where_it_says(
    kind: Callable[[TensorView, TensorView, int], TensorView],
) -> None:
    """`chosen` at i reads the leaf `index` at |made[i]|, for a place of what is no leaf."""
    x, i = torch.randint(-8, 9, (4096,)), torch.randint(2048, (2048,))
    a, index = like(x, i)
    made = kind(piece(a, 0, 0, 2048), index, 0)
    chosen = kind(made, call("abs", made), 0)
    check(fusion([a, index], made, chosen), x, i)


def test_an_index_function_is_gathered_without_memory() -> None:
    (i,) = like(index := torch.randint(9, (11,)))
    count = call(
        "iota", sc.constant(3), sc.constant(2), length=(sc.constant(9),), dtype=DataType.Int
    )
    check(fusion([i], rows(count, i)), index)


@pytest.mark.parametrize("width", [33, 1000, 1024])
def test_gathered_rows_are_normalised_in_one_kernel(width: int) -> None:
    x, index = torch.randn(9, width), torch.randint(9, (5,))
    a, i = like(x, index)
    scaled = call("mul", rows(a, i), sc.constant(width**0.5))
    peak = unsqueeze(call("max", scaled, dims=(1,)), 1)
    plan = check(
        fusion([a, i], call("div", scaled, expand(peak, 5, width))),
        x,
        index,
        options=Options(strict=True),
        orders=ORDERS,
    )
    assert plan.launches == 1


def test_one_element_of_a_row_is_gathered_beside_its_reductions() -> None:
    x, index = torch.randn(7, 501), torch.randint(501, (7, 1))
    a, i = like(x, index)
    below = call("sub", a, expand(unsqueeze(call("max", a, dims=(1,)), 1), 7, 501))
    assert check(fusion([a, i], along(below, i, 1)), x, index).launches == 1


def test_gathered_rows_are_reduced_down_columns() -> None:
    x, index = torch.randint(-9, 9, (9, 72)), torch.randint(9, (133,))
    a, i = like(x, index)
    program = fusion([a, i], total(rows(a, i), 0))
    assert check(program, x, index, options=Options(strict=True), orders=ORDERS).launches == 1


def test_a_function_of_a_gathered_row_is_made_behind_its_index() -> None:
    """Of columns, of which functions that all rows share are made before these."""
    x, table, index = torch.ones(133, 72), torch.zeros(9, 72), torch.randint(9, (1,))
    a, t, i = like(x, table, index)
    shared = expand(call("exp", rows(t, i)), 133, 72)
    program = fusion([a, t, i], total(call("mul", a, shared), 0))
    assert check(program, x, table, index, orders=ORDERS).launches == 1


def test_gathered_rows_are_reduced_both_ways() -> None:
    x, index = torch.randint(-9, 9, (9, 256)), torch.randint(9, (1024,))
    g = torch.randint(-3, 3, (1024, 256))
    a, i, b = like(x, index, g)
    both = call("mul", rows(a, i), b)
    program = fusion([a, i, b], total(both, 1), total(both, 0))
    check(program, x, index, g, options=Options(strict=True), orders=ORDERS)


def test_reductions_of_other_rows_are_stored_before_they_are_gathered() -> None:
    x, index = torch.randn(60, 72), torch.randint(60, (33,))
    a, i = like(x, index)
    peak = expand(unsqueeze(call("max", a, dims=(1,)), 1), 60, 72)
    plan = check(fusion([a, i], rows(call("sub", a, peak), i)), x, index)
    assert plan.launches == 2
    assert "index_select reads what must be stored first" in str(plan)


def test_an_index_that_a_reduction_makes_is_stored() -> None:
    x, choice = torch.randn(40, 72), torch.randint(0, 2, (40, 72))
    a, c = like(x, choice)
    count = call("fmod", total(c, 1), sc.constant(72))
    plan = check(fusion([a, c], along(a, unsqueeze(count, 1), 1)), x, choice)
    assert plan.launches == 2


def test_a_stop_point_may_stand_before_a_gather() -> None:
    x, index = torch.randn(6, 12), torch.randint(6, (5,))
    a, i = like(x, index)
    check(fusion([a, i], rows(stop(chain(a, "neg")), stop(i))), x, index)


def test_a_written_table_is_gathered_as_it_was() -> None:
    x, index = torch.randn(6, 12), torch.randint(6, (6,))
    a, i = like(x, index)
    check(fusion([a, i], rows(a, i), writes=[(chain(a, "neg"), a)]), x, index)
    check(fusion([a, i], writes=[(rows(a, i), a)]), x, index)


def test_rows_are_read_by_whole_vectors_and_their_index_once() -> None:
    x, index = torch.empty(50257, 4096, dtype=torch.bfloat16), torch.zeros(8192, dtype=torch.int64)
    a, i = like(x, index)
    _, (kernel,) = cuda_kernels(fusion([a, i], chain(rows(a, i), "neg")), x, index)
    text = str(kernel)
    assert "v0 = load T0[4096*T1_1 + 8*i1], 8 x bf16, 16 bytes at a time" in text
    assert text.count("T1[2*i0]") == text.count("T1[1 + 2*i0]") == 1
    assert "in_range(T1_0, 50257)" in text


PROGRAMS = {
    "map": lambda a, i: rows(a, i),
    "lanes": lambda a, i: along(permute(a, 1, 0), unsqueeze(i, 0), 1),
    "rows": lambda a, i: total(rows(a, i), 1),
    "columns": lambda a, i: total(rows(a, i), 0),
    "unused": lambda a, i: rows(expand(piece(a, 0, 0, 1), 40, 48), i),
}


@pytest.mark.parametrize(
    ("name", "bad", "order"), pairwise(list(PROGRAMS), [-1, 40, 2**40, -(2**63)], ORDERS)
)
def test_an_index_out_of_range_is_an_error(name: str, bad: int, order: str) -> None:
    if here().type == "cuda":
        pytest.skip("a failed assertion ends the process's use of the GPU")
    x, index = torch.randint(9, (40, 48)).float(), torch.randint(40, (48,))
    index[29] = bad
    program = _program(name, x, index)
    with pytest.raises(IndexRangeError, match=f"index {bad} is out of range .* extent 40") as error:
        run(program, x, index, options=Options(thread_order=order))
    assert isinstance(error.value, IndexError)
    index[29] = 3
    check(program, x, index, options=STRICT)


@pytest.mark.parametrize("extent", [0, 1])
def test_axes_that_need_no_index_check_it_all_the_same(extent: int) -> None:
    if here().type == "cuda":
        pytest.skip("a failed assertion ends the process's use of the GPU")
    x, index = torch.randn(extent, 8), torch.tensor([extent])
    with pytest.raises(IndexRangeError, match=f"extent {extent}"):
        run(_program("map", x, index), x, index)


@pytest.mark.parametrize("name", PROGRAMS)
def test_nvrtc_takes_the_check(name: str) -> None:
    x, index = torch.randn(40, 48), torch.randint(40, (48,))
    _, kernels = cuda_kernels(_program(name, x, index), x, index)
    for kernel in kernels:
        assert cubin_of(kernel).spill_bytes == 0


def _program(name: str, x: torch.Tensor, index: torch.Tensor) -> Fusion:
    a, i = like(x, index)
    return fusion([a, i], PROGRAMS[name](a, i))


BAD_INDEX = """
import torch
from tests.pairwise import pairwise
from tests.programs import fusion, like, run
from thunder_fuser.ir.build import call

x, index = torch.randn(40, 48).cuda(), torch.tensor([3, 40]).cuda()
a, i = like(x, index)
run(fusion([a, i], call("index_select", a, i, dim=0)), x, index)
torch.cuda.synchronize()
"""


def test_on_a_gpu_an_index_out_of_range_fails_the_launch() -> None:
    """In a process of its own, which cannot use the GPU afterwards."""
    if here().type == "cpu":
        pytest.skip("the host raises, see above")
    done = subprocess.run(
        [sys.executable, "-c", BAD_INDEX], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "index out of range" in done.stdout + done.stderr
    assert "device-side assert" in done.stderr
