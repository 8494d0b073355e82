"""Sums down the columns of odd planes: values beside those of torch, and what the kernels move."""

from __future__ import annotations

import pytest
import torch

from tests.devices import copies
from tests.pairwise import with_halves
from tests.programs import (
    H200,
    STRICT,
    chain,
    cubin_of,
    cuda_kernels,
    expand,
    fusion,
    like,
    plan_of,
    total,
    unsqueeze,
)
from thunder_fuser.analysis.layout import output_layout
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import apply, call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.column_ir import ColumnKernel
from thunder_fuser.kernel.map_ir import Kernel
from thunder_fuser.ops.reductions import SQUARED_DEVIATION
from thunder_fuser.presegment.pack_rows import pack_rows

pytestmark = [pytest.mark.usefixtures("device", "few_multiprocessors"), pytest.mark.sanitizer]
# Of eight multiprocessors: planes that are packed, and some of other numbers of rows or too small.
SHAPES = {
    "packed": (2048, 257),
    "packed, tiny rows": (150_000, 3),
    "packed, five columns": (80_008, 5),
    "packed, seven columns": (2080 * 32, 7),
    "packed, wide": (2048, 4097),
    "left over: rows of another number": (2051, 257),
    "small": (8, 4097),
    "none": (0, 257),
}
LAUNCHES = {"packed": 2, "left": 3}  # with one for rows that are left over


def errors(
    program: Fusion, tensors: list[torch.Tensor], eager: torch.Tensor, exact: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of the first result, and of eager's."""
    (found, *_) = plan_of(program, *copies(tensors), options=STRICT).run(*copies(tensors))
    assert found.dtype == eager.dtype
    return (found.cpu().double() - exact).abs(), (eager.double() - exact).abs()


def launches(program: Fusion, *tensors: torch.Tensor) -> int:
    return plan_of(program, *copies(tensors), options=STRICT).launches


@pytest.mark.parametrize(("name", "dtype"), with_halves(list(SHAPES), torch.float32), ids=str)
def test_sums_err_no_more_than_those_of_torch(name: str, dtype: torch.dtype) -> None:
    x = torch.randn(SHAPES[name]).to(dtype)
    (a,) = like(x)
    program = fusion([a], total(chain(a, "neg"), 0))
    assert launches(program, x) == LAUNCHES.get(name.split()[0].rstrip(",:"), 1)
    got, eager = errors(program, [x], (-x).sum(0), -x.double().sum(0))
    # A rounding of the result, and in f32 some of sums as large as the root of their number.
    rounding = torch.finfo(dtype).eps * x.double().sum(0).abs().max() if x.numel() else 0.0
    slack = rounding + 16 * torch.finfo(torch.float32).eps * max(len(x), 1) ** 0.5
    assert (got <= 2 * eager.max() + slack).all() if got.numel() and x.numel() else not got.any()


@pytest.mark.parametrize(
    "shape",
    [
        (2048, 257),
        (2048, 1031),
        (2052, 1031),
        (2055, 1031),
        (1033, 4097),
        (150_000, 3),
        (150_001, 3),
    ],
    ids=str,
)
def test_gradients_of_a_bias_come_with_those_of_the_plane(shape: tuple[int, int]) -> None:
    x, g, bias = torch.randn(shape), torch.randn(shape), torch.randn(shape[1])
    x, g, bias = (t.bfloat16() for t in (x, g, bias))
    a, b, c = like(x, g, bias)
    made = call("mul", b, chain(call("add", a, c), "tanh"))
    narrow = call("cast", made, dtype=DataType.BFloat16)
    program = fusion([a, b, c], narrow, total(made, 0))
    assert launches(program, x, g, bias) == 2
    plane, sums = plan_of(program, *copies([x, g, bias]), options=STRICT).run(*copies([x, g, bias]))
    eager = g * torch.tanh(x + bias)
    assert torch.equal(plane.cpu(), eager)
    exact = eager.double().sum(0)
    error, of_eager = ((t.cpu().double() - exact).abs() for t in (sums, eager.sum(0)))
    assert (error <= 2 * of_eager.max() + 2**-7 * exact.abs().max()).all()


def test_integers_and_extrema_are_exact() -> None:
    x = torch.randint(-100, 100, (4096, 257), dtype=torch.int8)
    y = torch.randn(2048, 257)
    a, b = like(x, y)
    for program, tensor, wanted in (
        (fusion([a], total(a, 0)), x, x.sum(0)),
        (fusion([b], call("max", b, dims=(0,))), y, y.amax(0)),
    ):
        assert launches(program, tensor) == 2
        (found,) = plan_of(program, *copies([tensor]), options=STRICT).run(*copies([tensor]))
        assert torch.equal(found.cpu(), wanted)


@pytest.mark.parametrize("lies", ["rows apart", "expanded", "columns first", "shifted"])
def test_planes_that_lie_otherwise_are_summed_where_they_lie(lies: str) -> None:
    wide = torch.randint(-8, 9, (2048 * 300 + 1,)).float()
    x = {
        "rows apart": lambda: wide[:-1].view(2048, 300)[:, :257],
        "expanded": lambda: wide[:257].expand(2048, 257),
        "columns first": lambda: wide[: 2048 * 257].view(257, 2048).T,
        "shifted": lambda: wide[1 : 1 + 2048 * 257].view(2048, 257),
    }[lies]()
    y = torch.randint(-8, 9, (2048, 257)).float()
    a, b = like(x, y)
    program = fusion([a, b], total(call("add", a, b), 0))
    assert launches(program, x, y) == 1
    (found,) = plan_of(program, *copies([x, y]), options=STRICT).run(*copies([x, y]))
    assert torch.equal(found.cpu(), (x + y).sum(0))


def test_what_depends_on_the_sums_at_every_element_reads_them() -> None:
    x = torch.randint(-8, 9, (2048, 257)).float()
    (a,) = like(x)
    away = call("sub", a, expand(unsqueeze(total(a, 0), 0), 2048, 257))
    (found,) = plan_of(fusion([a], away), *copies([x]), options=STRICT).run(*copies([x]))
    assert launches(fusion([a], away), x) == 3
    assert torch.equal(found.cpu(), x - x.sum(0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rows", [2048, 2051])
def test_a_batch_norm_of_features_errs_no_more_than_that_of_torch(
    rows: int, dtype: torch.dtype
) -> None:
    """Whose rows begin anywhere in a vector, and about a mean that is no small number."""
    x = (torch.randn(rows, 257) + 4 * torch.randn(257)).to(dtype)
    (a,) = like(x)
    wide = call("cast", a, dtype=DataType.Float)
    mean = call("truediv", total(wide, 0), sc.constant(float(rows)))
    away = call("sub", wide, expand(unsqueeze(mean, 0), rows, 257))
    squares = total(call("mul", away, away), 0)
    scale = chain(call("truediv", squares, sc.constant(float(rows))), "rsqrt")
    scaled = call("mul", away, expand(unsqueeze(scale, 0), rows, 257))
    program = fusion([a], call("cast", scaled, dtype=a.dtype))
    eager = torch.nn.functional.batch_norm(x, None, None, training=True, eps=1e-12)
    exact = torch.nn.functional.batch_norm(x.double(), None, None, training=True, eps=1e-12)
    got, of_eager = errors(program, [x], eager, exact)
    assert got.max() <= 2 * of_eager.max()


@pytest.mark.parametrize("shape", [(16384, 4097), (4096, 50257)], ids=str)
def test_the_plane_is_moved_in_whole_vectors_and_the_bias_loaded_once(
    shape: tuple[int, int],
) -> None:
    x, g = (torch.empty(shape, dtype=torch.bfloat16) for _ in range(2))
    bias = torch.empty(shape[1], dtype=torch.bfloat16)
    a, b, c = like(x, g, bias)
    made = call("mul", b, chain(call("add", a, c), "tanh"))
    narrow = call("cast", made, dtype=DataType.BFloat16)
    program = fusion([a, b, c], narrow, total(made, 0))
    layouts = {tv: output_layout(tv) for tv in (a, b, c)}
    packed = pack_rows(program, layouts, H200)
    _, (walk, parts) = cuda_kernels(packed, x, g, bias)
    assert isinstance(walk, ColumnKernel)
    assert isinstance(parts, Kernel)
    row = walk.axes.row
    of_rows = [access for access in walk.loop.loads if row in access.offset.bases]
    assert [access.access_bytes for access in (*of_rows, *walk.loop.stores)] == [16] * 3
    (once,) = [access for access in walk.loop.loads if access not in of_rows]
    assert (once.pointer, once.length) == ("T2", 8)
    assert cubin_of(walk).spill_bytes == 0


@pytest.mark.parametrize("shape", [(261123, 257), (43690, 1536), (32784, 2047)], ids=str)
def test_means_and_variances_of_columns_spill_nothing(shape: tuple[int, int]) -> None:
    """Nor does the block that combines the parts of others, which have five numbers a column."""
    x = torch.empty(shape, dtype=torch.float16)
    (a,) = like(x)
    wide = call("cast", a, dtype=DataType.Float)
    squares = apply(SQUARED_DEVIATION, [wide], {"dims": (0,)})
    assert isinstance(squares, TensorView)
    program = fusion([a], total(wide, 0), squares)
    layouts = {a: output_layout(a)}
    _, kernels = cuda_kernels(pack_rows(program, layouts, H200), x)
    assert isinstance(kernels[0], ColumnKernel)
    assert all(cubin_of(kernel).spill_bytes == 0 for kernel in kernels)
