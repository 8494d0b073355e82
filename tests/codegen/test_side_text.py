"""Short rows that a block walks side by side beside sums down their columns: values in every order
of threads, what NVRTC makes of them, and that no barrier can be left out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from tests.devices import ORDERS, copies
from tests.pairwise import in_turn
from tests.programs import (
    H200,
    STRICT,
    check,
    cubin_of,
    cuda_kernels,
    expand,
    fusion,
    like,
    permute,
    plan_of,
    reshape,
    total,
    unsqueeze,
    whole,
)
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.kernel.source import Source
from thunder_fuser.options import Options
from thunder_fuser.presegment.split_reductions import split_reductions
from thunder_fuser.runtime.errors import LaunchError
from thunder_fuser.runtime.kernels import KERNELS
from thunder_fuser.runtime.plan import Plan
from thunder_fuser.target import HOST

on_devices = pytest.mark.usefixtures("device", "one_multiprocessor", "without_clusters")


def gradients(sums: int, *tensors: torch.Tensor) -> Fusion:
    """As of a norm of x (rows, columns) by g, with a weight per column and a scale per row: that of
    x, and `sums` down the columns."""
    inputs = like(*tensors)
    rows, columns = tensors[0].shape
    wide = inputs[0].dtype.compute_type
    x, g, w, r = (call("cast", v, dtype=wide) for v in inputs)
    scaled = call("mul", g, expand(unsqueeze(w, 0), rows, columns))
    inner = expand(unsqueeze(total(call("mul", scaled, x), 1), 1), rows, columns)
    scale = expand(unsqueeze(r, 1), rows, columns)
    moved = call("sub", call("mul", scaled, scale), call("mul", x, inner))
    down = [call("mul", call("mul", x, scale), g), g, call("mul", x, g)][:sums]
    results = (moved, *(total(tv, 0) for tv in down))
    return fusion(inputs, *(call("cast", v, dtype=inputs[0].dtype) for v in results))


def arguments(
    rows: int, columns: int, dtype: torch.dtype, make: Callable[..., torch.Tensor] = whole
) -> list[torch.Tensor]:
    """Whole numbers, of which no sum in f32 is rounded; or `torch.empty` ones, only to be bound."""
    shapes = ((rows, columns), (rows, columns), (columns,))
    return [*(make(*shape, dtype=dtype) for shape in shapes), make(rows)]


def is_side_by_side(plan: Plan) -> bool:
    texts = [k.text for k in plan.kernels if k is not None]
    return sum("const int side" in text for text in texts) == 1 and len(texts) == 2


def has_rest(plan: Plan) -> bool:
    return any(re.search(r"if \(.*turn <", k.text) for k in plan.kernels if k is not None)


SIZES = {
    "a quarter of a warp": (1280, 64, torch.bfloat16),
    "threads without a vector": (1280, 96, torch.bfloat16),
    "a warp": (640, 128, torch.float32),
    "vectors of four": (1200, 100, torch.float16),
    "single elements": (1152, 37, torch.bfloat16),
    "two vectors of a thread": (512, 512, torch.bfloat16),
    "the last of them not full": (640, 504, torch.float16),
    "doubles": (640, 66, torch.float64),
    "a last batch of one turn": (3 * 5 * 5 * 16, 64, torch.float32),
    "a turn of a few rows": (1277, 64, torch.bfloat16),
    "a turn of one row": (1281, 128, torch.float32),
    "a turn of a few rows that begin in one lane": (1213, 260, torch.bfloat16),
    "the same, two vectors of a thread": (1021, 300, torch.float16),
    "six rows at once": (2 * 3 * 5 * 7 * 11, 256, torch.bfloat16),
}


@on_devices
@pytest.mark.sanitizer
@pytest.mark.parametrize("size", SIZES)
def test_rows_and_columns_are_summed_in_one_walk(size: str) -> None:
    given = arguments(*SIZES[size])
    plan = check(gradients(2, *given), *given, orders=ORDERS)
    assert is_side_by_side(plan)
    assert has_rest(plan) or size != "a last batch of one turn"


@on_devices
@pytest.mark.sanitizer
@pytest.mark.parametrize("size", [(1277, 96), (1213, 260)])
def test_a_thread_without_a_row_adds_nothing_to_sums(size: tuple[int, int]) -> None:
    """Nor does it store: the row that it has instead is of numbers that would show."""
    x, g, w, r = arguments(*size, torch.bfloat16)
    g[:300] = 64
    plan = check(gradients(2, x, g, w, r), x, g, w, r)
    assert is_side_by_side(plan)
    assert any("is_active" in k.text for k in plan.kernels if k is not None)


@on_devices
@pytest.mark.parametrize("sums", [1, 3])
def test_each_sum_has_shared_memory_in_its_turn(sums: int) -> None:
    given = arguments(1280, 64, torch.float32)
    assert is_side_by_side(check(gradients(sums, *given), *given))


@on_devices
@pytest.mark.parametrize("op", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.bfloat16, torch.float64])
def test_any_type_is_combined(op: str, dtype: torch.dtype) -> None:
    x = whole(1280, 48, dtype=dtype)
    x[:, 7:] = 1  # products stay small
    (a,) = like(x)
    assert is_side_by_side(check(fusion([a], *(call(op, a, dims=(d,)) for d in (0, 1))), x))


@on_devices
def test_the_order_of_blocks_and_threads_does_not_show_in_a_bit() -> None:
    given = [torch.randn(1280, 64), torch.randn(1280, 64), torch.randn(64), torch.rand(1280)]
    program = gradients(2, *given)
    found = []
    for order in ORDERS:
        there = copies(given)
        plan = plan_of(program, *there, options=replace(STRICT, thread_order=order))
        found += [plan.run(*there) for _ in range(2)]
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize(
    ("columns", "dtype", "sums"),
    in_turn(
        [64, 96, 100, 128, 256, 512],
        [(torch.bfloat16, 1), (torch.float32, 2), (torch.bfloat16, 2), (torch.float32, 1)],
    ),
)
def test_nvrtc_compiles_it_without_spills(columns: int, dtype: torch.dtype, sums: int) -> None:
    given = arguments(1 << 17, columns, dtype, torch.empty)
    dealt = split_reductions(gradients(sums, *given), H200)
    _, (kernel, _) = cuda_kernels(dealt, *given)
    assert isinstance(kernel, RowKernel)
    assert kernel.is_side_by_side == (columns * dtype.itemsize <= 1024)
    assert cubin_of(kernel).spill_bytes == 0


def walked(x: torch.Tensor, at_once: int = 8) -> Source:
    """The kernel of sums along the rows of x, and of 8 parts of the columns of x and of x * x, so
    many rows at a time."""
    (a,) = like(x)
    parts = (dealt(a, at_once), dealt(call("mul", a, a), at_once))
    (source,) = plan_of(fusion([a], total(a, 1), *parts), x, options=Options()).kernels
    assert source is not None
    return source


def dealt(tv: TensorView, at_once: int) -> TensorView:
    pieces = reshape(tv, tv.shape[0] // (8 * at_once), 8, at_once, tv.shape[1])
    return total(permute(pieces, 1, 0, 2, 3), 1, 2)


def is_right(source: Source, x: torch.Tensor, order: str, at_once: int = 8) -> bool:
    parts = [v.reshape(-1, 8, at_once, x.shape[1]).sum((0, 2)) for v in (x, x * x)]
    expected = [x.sum(1), *parts]
    found = [torch.full_like(t, float("nan")) for t in expected]
    launch = KERNELS.launcher(source, HOST, Options(thread_order=order, cache="off"))
    try:
        launch(0, x.data_ptr(), *(t.data_ptr() for t in found))
    except LaunchError:
        return False
    return all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.usefixtures("without_clusters")
@pytest.mark.parametrize("left_out", range(3))
def test_a_barrier_left_out_shows_in_some_order(left_out: int) -> None:
    """A wrong value or an error; the kernel as it is gives the right ones."""
    x = whole(2560, 256)  # a warp a row: it waits for no other when the sums meet
    source = walked(x)
    assert "const int side" in source.text
    pieces = source.text.split("__syncthreads();")
    assert len(pieces) == 4
    pieces[left_out : left_out + 2] = ["".join(pieces[left_out : left_out + 2])]
    wrong = replace(source, fragments=("__syncthreads();".join(pieces),), literals=())
    assert all(is_right(source, x, order) for order in ORDERS)
    assert not all(is_right(wrong, x, order) for order in ORDERS)
