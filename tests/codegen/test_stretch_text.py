"""Short rows that pass through shared memory while a block walks them: values in every order of
threads, what NVRTC makes of them, and that no barrier can be left out."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
import torch

from tests.codegen.test_side_text import arguments, gradients, is_right, walked
from tests.devices import ORDERS, copies
from tests.pairwise import in_turn
from tests.presegment.test_fold_places import place
from tests.presegment.test_one_pass_exponentials import softmax
from tests.programs import (
    H200,
    check,
    cubin_of,
    cuda_kernels,
    expand,
    fusion,
    ints,
    like,
    plan_of,
    total,
    unsqueeze,
    whole,
)
from thunder_fuser import pipeline
from thunder_fuser.analysis.short_rows import share_of
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.kernel.source import Source
from thunder_fuser.kernel.templates import draft
from thunder_fuser.options import Options
from thunder_fuser.presegment import arrange, tidy
from thunder_fuser.runtime.bind import bind
from thunder_fuser.runtime.errors import LaunchError
from thunder_fuser.runtime.evaluate import evaluate
from thunder_fuser.runtime.kernels import KERNELS
from thunder_fuser.runtime.plan import Plan
from thunder_fuser.target import HOST

on_devices = pytest.mark.usefixtures("device", "one_multiprocessor")
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


def is_in_stretches(plan: Plan) -> bool:
    return any("tf::copy_stretch" in k.text for k in plan.kernels if k is not None)


SIZES = {
    "a row of a thread": (4567, 9, F16),
    "two threads": (2048, 20, BF16),
    "four, whose last elements are none": (1342, 50, BF16),
    "single elements": (1152, 37, BF16),
    "rows of a line": (1024, 64, BF16),
    "rows a little longer": (1111, 65, F16),
    "rows of half of a warp": (640, 200, BF16),
    "a warp": (520, 257, BF16),
    "two warps": (300, 768, F16),
    "two warps, whose last elements are none": (517, 600, BF16),
    "rows of floats": (1283, 33, F32),
    "pairs of floats": (1277, 66, F32),
    "a plane that ends inside a vector": (1277, 35, F16),
    "a last turn of one row": (1153, 63, BF16),
}


@on_devices
@pytest.mark.sanitizer
@pytest.mark.parametrize("size", SIZES)
def test_rows_and_columns_are_summed_in_one_walk(size: str) -> None:
    given = arguments(*SIZES[size])
    plan = check(gradients(2, *given), *given, orders=ORDERS)
    assert is_in_stretches(plan)
    assert len(plan.kernels) == 2


@on_devices
@pytest.mark.sanitizer
@pytest.mark.parametrize("size", [(1277, 96), (1213, 260)])
def test_a_thread_without_a_row_adds_nothing_to_sums(size: tuple[int, int]) -> None:
    """Nor does it store: the row that it has instead is of numbers that would show."""
    x, g, w, r = arguments(*size, BF16)
    g[:300] = 64
    assert is_in_stretches(check(gradients(2, x, g, w, r), x, g, w, r))


def away(*tensors: torch.Tensor) -> Fusion:
    """Rows less their weighted sum, and that sum."""
    x, w = like(*tensors)
    rows, columns = x.shape
    wide = call("cast", x, dtype=w.dtype)
    summed = total(call("mul", wide, expand(unsqueeze(w, 0), rows, columns)), 1)
    rest = call("sub", wide, expand(unsqueeze(summed, 1), rows, columns))
    return fusion([x, w], call("cast", rest, dtype=x.dtype), summed)


@on_devices
@pytest.mark.sanitizer
@pytest.mark.parametrize(
    ("rows", "columns", "dtype"),
    [(4567, 9, BF16), (1061, 63, F16), (2111, 50, BF16), (301, 257, BF16), (1283, 33, F32)],
)
def test_odd_rows_without_sums_down_their_columns_are_walked_too(
    rows: int, columns: int, dtype: torch.dtype
) -> None:
    given = whole(rows, columns, dtype=dtype), whole(columns)
    plan = check(away(*given), *given, orders=ORDERS)
    assert is_in_stretches(plan)
    assert len(plan.kernels) == 1


def divergence(*tensors: torch.Tensor) -> Fusion:
    """Of the softmax of rows from that of others."""
    given, wanted = like(*tensors)

    def logarithms(x: TensorView) -> TensorView:
        wide, shape = call("cast", x, dtype=DataType.Float), x.shape
        top = expand(unsqueeze(call("max", wide, dims=(1,)), 1), *shape)
        below = call("sub", wide, top)
        summed = call("log", total(call("exp", below), 1))
        return call("sub", below, expand(unsqueeze(summed, 1), *shape))

    ours, theirs = logarithms(given), logarithms(wanted)
    terms = call("mul", call("exp", theirs), call("sub", theirs, ours))
    return fusion([given, wanted], total(terms, 1))


def measured(*tensors: torch.Tensor) -> Fusion:
    """The largest element of each row, and sums of what the others lie below it."""
    (x,) = like(*tensors)
    rows, columns = x.shape
    wide = call("cast", x, dtype=DataType.Float)
    top = call("max", wide, dims=(1,))
    below = call("sub", wide, expand(unsqueeze(top, 1), rows, columns))
    return fusion([x], top, total(below, 1), total(call("mul", below, wide), 1))


@on_devices
@pytest.mark.sanitizer
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("rows", "columns", "dtype"), [(2101, 34, BF16), (1061, 63, F16), (661, 154, BF16)]
)
def test_rows_of_many_sums_have_few_threads(
    rows: int, columns: int, dtype: torch.dtype, order: str
) -> None:
    given = [torch.randn(rows, columns).to(dtype) for _ in range(2)]
    plan = plan_of(divergence(*given), *copies(given), options=Options(thread_order=order))
    assert is_in_stretches(plan)
    (found,) = plan.run(*copies(given))
    ours, theirs = (torch.log_softmax(x.double(), 1) for x in given)
    wanted = (theirs.exp() * (theirs - ours)).sum(1)
    torch.testing.assert_close(found.cpu().double(), wanted, rtol=1e-5, atol=1e-6)


@on_devices
@pytest.mark.sanitizer
@pytest.mark.parametrize(
    ("rows", "columns", "dtype"),
    [(1277, 33, F16), (1973, 34, BF16), (1061, 63, F16), (1032, 65, F16), (601, 95, F32)],
)
def test_rows_that_are_only_read_are_walked_too(
    rows: int, columns: int, dtype: torch.dtype
) -> None:
    x = whole(rows, columns, dtype=dtype)
    plan = check(measured(x), x, orders=ORDERS)
    assert is_in_stretches(plan)
    assert len(plan.kernels) == 1


@pytest.mark.parametrize("dtype", [BF16, F32])
@pytest.mark.parametrize("columns", [33, 34, 63, 65, 155, 223])
def test_nvrtc_compiles_rows_that_are_only_read_without_spills(
    columns: int, dtype: torch.dtype
) -> None:
    x = torch.empty((1 << 23) // columns, columns, dtype=dtype)
    for kernel in cuda_kernels(measured(x), x)[1]:
        assert cubin_of(kernel).spill_bytes == 0


def routed(x: torch.Tensor) -> Fusion:
    """What rows are reduced to, and of how many each column is the largest share, all of them."""
    (tokens,) = like(x)
    wide = call("cast", tokens, dtype=DataType.Float)
    shares = softmax(wide, 1)
    index = call("broadcast", place(shares), is_broadcast_dim=(False, True))
    count = call("iota", *ints([0, 1]), length=ints([x.shape[1]]), dtype=DataType.Int)
    is_chosen = call("eq", call("broadcast", count, is_broadcast_dim=(True, False)), index)
    chosen = call("cast", is_chosen, dtype=DataType.Float)
    return fusion([tokens], call("max", wide, dims=(1,)), total(shares, 0), total(chosen, 0))


@on_devices
@pytest.mark.sanitizer
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("rows", "columns", "dtype"), [(1277, 64, BF16), (1061, 63, F16), (601, 200, BF16)]
)
def test_threads_have_more_of_rows_that_only_sums_are_of(
    rows: int, columns: int, dtype: torch.dtype, order: str
) -> None:
    x = torch.randn(rows, columns).to(dtype)
    plan = plan_of(routed(x), *copies([x]), options=Options(thread_order=order))
    assert is_in_stretches(plan)
    top, shares, chosen = (t.cpu() for t in plan.run(*copies([x])))
    exact = torch.softmax(x.double(), 1)
    torch.testing.assert_close(top, x.float().amax(1))
    torch.testing.assert_close(shares.double(), exact.sum(0), rtol=1e-5, atol=1e-6)
    wanted = torch.bincount(x.float().argmax(1), minlength=columns)
    assert torch.equal(chosen.long(), wanted)


@pytest.mark.parametrize(("rows", "columns"), [(1 << 20, 64), (1 << 19, 126), (1 << 18, 256)])
def test_nvrtc_compiles_more_of_a_row_beside_sums_without_spills(rows: int, columns: int) -> None:
    x = torch.empty(rows, columns, dtype=BF16)
    bound = bind(routed(x), [x])
    made = arrange(tidy(bound.fusion), bound.layouts, H200)
    kernel = cuda_kernels(made, x)[1][0]
    assert isinstance(kernel, RowKernel)
    assert cubin_of(kernel).spill_bytes == 0


def bias_gradients(*tensors: torch.Tensor) -> Fusion:
    """Of w in x * w, of a bias beside it, and of the sum of all x."""
    first, *others, w = like(*tensors)
    rows, columns = first.shape
    x = first
    for other in others:
        x = call("add", x, other)
    moved = call("mul", x, expand(unsqueeze(w, 0), rows, columns))
    return fusion([first, *others, w], moved, total(call("mul", x, x), 0), total(x, 0))


@on_devices
@pytest.mark.sanitizer
@pytest.mark.parametrize(
    ("rows", "columns", "dtype"),
    [(7001, 9, F16), (1153, 63, BF16), (1343, 50, BF16), (301, 257, F16), (1283, 33, F32)],
)
def test_odd_rows_without_sums_along_them_are_walked_too(
    rows: int, columns: int, dtype: torch.dtype
) -> None:
    given = whole(rows, columns, dtype=dtype), whole(columns, dtype=dtype)
    program = bias_gradients(*given)
    plan = check(program, *given, orders=ORDERS)
    assert is_in_stretches(plan)
    assert len(plan.kernels) == 2


def shared_gradients(sums: int, *tensors: torch.Tensor) -> Fusion:
    """Rows of x and what images share less their sums, and `sums` of them over the images."""
    x, bias = like(*tensors)
    both = call("add", x, expand(unsqueeze(bias, 0), *x.shape))
    rest = call("sub", both, expand(unsqueeze(total(both, 3), 3), *x.shape))
    down = [both, call("mul", x, x)][:sums]
    return fusion([x, bias], rest, *(total(tv, 0) for tv in down))


def shared_of(*shape: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    return whole(*shape, dtype=dtype), whole(*shape[1:], dtype=dtype)


IMAGES = {
    "threads without a row": ((37, 8, 17, 17), BF16),
    "as many images for all blocks": ((33, 8, 17, 17), F16),
    "one part of several stretches": ((13, 8, 40, 15), BF16),
    "images that begin inside vectors": ((64, 3, 17, 17), BF16),
    "a last turn of a few of them": ((61, 3, 17, 17), BF16),
    "vectors": ((21, 8, 16, 16), F16),
    "vectors of floats": ((41, 8, 16, 16), F32),
    "floats": ((37, 8, 17, 17), F32),
    "rows of almost a line": ((29, 4, 24, 63), BF16),
}


@on_devices
@pytest.mark.sanitizer
@pytest.mark.parametrize("sums", [1, 2])
@pytest.mark.parametrize("case", IMAGES)
def test_what_images_share_is_summed_in_one_walk(case: str, sums: int) -> None:
    shape, dtype = IMAGES[case]
    given = shared_of(*shape, dtype=dtype)
    plan = check(shared_gradients(sums, *given), *given, orders=ORDERS)
    walk, *rest = (k.text for k in plan.kernels if k is not None)
    assert "tf::copy_stretch" in walk
    assert "combine_sides" not in walk
    assert ("is_active" in walk) == (shape[-1] == 17)
    assert len(rest) <= 1


@pytest.mark.usefixtures("device", "few_multiprocessors")
def test_stretches_of_images_may_begin_inside_a_head() -> None:
    given = shared_of(19, 8, 49, 49, dtype=BF16)
    plan = check(shared_gradients(1, *given), *given, orders=ORDERS)
    assert is_in_stretches(plan)
    assert len(plan.kernels) == 2


@on_devices
def test_what_images_share_is_loaded_once() -> None:
    """Before the turns, of which each has the same of it."""
    given = shared_of(37, 8, 17, 17, dtype=BF16)
    walk, _ = (k.text for k in check(shared_gradients(1, *given), *given).kernels if k is not None)
    before, turns = walk.split("for (int turn = 0; turn < turns; ++turn) {")
    assert "tf::load<tf::bf16, 1, 2>(T1 + " in before
    assert "T1 + " not in turns


@on_devices
def test_rows_of_too_many_tensors_are_summed_without_stretches() -> None:
    given = [whole(521, 255) for _ in range(12)]
    plan = check(bias_gradients(*given, whole(255)), *given, whole(255))
    assert not is_in_stretches(plan)


@on_devices
@pytest.mark.parametrize("columns", [768, 64])
def test_what_rows_have_one_of_may_fill_no_vectors(columns: int) -> None:
    """Four rows of a turn have 8 bytes of such values in 16 bits, which threads load."""
    x, r = whole(1280, columns, dtype=BF16), whole(1280, dtype=BF16)
    a, b = like(x, r)
    scaled = call("mul", a, expand(unsqueeze(b, 1), *a.shape))
    rest = call("sub", scaled, expand(unsqueeze(total(scaled, 1), 1), *a.shape))
    plan = check(fusion([a, b], rest, total(scaled, 0)), x, r)
    (text,) = (k.text for k in plan.kernels if k is not None and "tf::copy_stretch" in k.text)
    assert text.count("tf::copy_stretch(v") == (1 if columns == 768 else 2)


@on_devices
def test_a_value_that_is_stored_twice_fills_one_stretch() -> None:
    x, y = whole(1281, 37, dtype=BF16), whole(1281, 37, dtype=BF16)
    a, b = like(x, y)
    both = call("add", a, b)
    rest = call("sub", both, expand(unsqueeze(total(both, 1), 1), *a.shape))
    plan = check(fusion([a, b], rest, call("set", rest), total(both, 0)), x, y)
    (text,) = (k.text for k in plan.kernels if k is not None and "tf::copy_stretch" in k.text)
    assert len(re.findall(r"tf::store_stretch\(T\d+ ", text)) == 2
    assert text.count("* const w0_rows = ") == 1


@on_devices
def test_images_of_too_many_tensors_are_summed_without_stretches() -> None:
    first, *others, bias = [*(whole(37, 8, 17, 17) for _ in range(14)), whole(8, 17, 17)]
    a, *more, b = like(first, *others, bias)
    both = call("add", a, expand(unsqueeze(b, 0), *a.shape))
    for other in more:
        both = call("add", both, other)
    rest = call("sub", both, expand(unsqueeze(total(both, 3), 3), *a.shape))
    plan = check(fusion([a, *more, b], rest, total(both, 0)), first, *others, bias)
    assert not is_in_stretches(plan)


@pytest.mark.parametrize(
    ("columns", "dtype", "sums"),
    in_turn(
        [9, 50, 63, 66, 129, 154, 257, 443, 600, 768, 894],
        [(BF16, 1), (F32, 2), (BF16, 2), (F32, 1)],
    ),
)
def test_nvrtc_compiles_it_without_spills(columns: int, dtype: torch.dtype, sums: int) -> None:
    given = arguments((1 << 23) // columns, columns, dtype, torch.empty)
    bound = bind(gradients(sums, *given), given)
    dealt = arrange(bound.fusion, bound.layouts, H200)
    walk, _ = pipeline.cut_region(dealt, bound.layouts, H200, strict=False).segments
    kernel = draft(walk, H200, False).lower(False)
    assert isinstance(kernel, RowKernel)
    assert bool(kernel.staged) == (share_of(columns, dtype.itemsize) is not None)
    assert cubin_of(kernel).spill_bytes == 0


@pytest.mark.parametrize(
    ("shape", "dtype", "sums"),
    [
        ((8, 17, 17), BF16, 1),
        ((16, 49, 49), BF16, 2),
        ((24, 49, 49), F16, 1),
        ((3, 49, 49), BF16, 2),
        ((6, 49, 49), F16, 1),
        ((8, 16, 16), BF16, 2),
        ((4, 32, 32), F16, 1),
        ((16, 24, 63), BF16, 2),
        ((8, 17, 17), F32, 2),
        ((8, 16, 16), F32, 1),
        ((16, 30, 31), F32, 2),
    ],
)
def test_nvrtc_compiles_sums_of_images_without_spills(
    shape: tuple[int, ...], dtype: torch.dtype, sums: int
) -> None:
    images = (1 << 20) // math.prod(shape) * 8
    given = [torch.empty(*of, dtype=dtype) for of in ((images, *shape), shape)]
    bound = bind(shared_gradients(sums, *given), given)
    dealt = arrange(tidy(bound.fusion), bound.layouts, H200)
    walk, *_ = pipeline.cut_region(dealt, bound.layouts, H200, strict=False).segments
    kernel = draft(walk, H200, False).lower(False)
    assert isinstance(kernel, RowKernel)
    assert kernel.staged
    assert len(kernel.sums) == sums
    assert cubin_of(kernel).spill_bytes == 0


def without(source: Source, barrier: int, of: int) -> Source:
    """The kernel with one of so many barriers left out."""
    assert "tf::copy_stretch" in source.text
    pieces = source.text.split("__syncthreads();")
    assert len(pieces) == of + 1
    pieces[barrier : barrier + 2] = ["".join(pieces[barrier : barrier + 2])]
    return replace(source, fragments=("__syncthreads();".join(pieces),), literals=())


# Those of an opening, a turn's beginning and the end of all turns do not show here: mailboxes of
# the host are zeros, and its warps wait for each other at every shuffle.
@pytest.mark.parametrize("left_out", [3, 4, 5])
def test_a_barrier_left_out_between_the_sums_of_warps_shows_in_some_order(left_out: int) -> None:
    """A wrong value or an error; the kernel as it is gives the right ones."""
    x = whole(2560, 258)
    source = walked(x)
    wrong = without(source, left_out, 6)
    assert all(is_right(source, x, order) for order in ORDERS)
    assert not all(is_right(wrong, x, order) for order in ORDERS)


@pytest.mark.parametrize("left_out", [1, 2])
def test_a_barrier_left_out_of_a_turn_shows_in_some_order(left_out: int) -> None:
    """Before all threads fill what is stored, and behind that."""
    given = whole(8192, 9), whole(9)
    (source,) = plan_of(away(*given), *given, options=Options()).kernels
    assert source is not None
    expected = evaluate(away(*given), given)

    def is_good(kernel: Source, order: str) -> bool:
        found = [torch.full_like(t, float("nan")) for t in expected]
        launch = KERNELS.launcher(kernel, HOST, Options(thread_order=order, cache="off"))
        try:
            launch(0, *(t.data_ptr() for t in (*given, *found)))
        except LaunchError:
            return False
        return all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))

    wrong = without(source, left_out, 4)
    assert all(is_good(source, order) for order in ORDERS)
    assert not all(is_good(wrong, order) for order in ORDERS)
