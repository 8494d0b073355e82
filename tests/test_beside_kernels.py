"""Sums over all columns in the kernel that keeps these: gradients of norms over channels, and of
rows that lie apart."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch

from tests.devices import ORDERS, copies
from tests.presegment.test_one_pass_exponentials import softmax
from tests.programs import (
    chain,
    check,
    cubin_of,
    cuda_kernels,
    expand,
    fusion,
    like,
    permute,
    plan_of,
    total,
    unsqueeze,
    whole,
)
from tests.test_strip_kernels import less_its_sums, swapped
from thunder_fuser.analysis.layout import dense_strides
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.kept_ir import KeptKernel
from thunder_fuser.options import Options

walk_columns = import_module("thunder_fuser.presegment.walk_columns")  # not the function
CUDA = {torch.bfloat16: "tf::bf16", torch.float32: "float"}
pytestmark = [pytest.mark.usefixtures("device"), pytest.mark.sanitizer]
SHAPES = {
    "vectors": (64, 64, 40),
    "few vectors at a time": (10, 96, 196),
    "odd columns": (16, 264, 35),
    "odd rows": (12, 65, 128),
    "many rows": (4, 1000, 36),
    "few columns": (128, 640, 4),
    "odd columns of few rows": (512, 31, 3),
}


@pytest.fixture
def small_planes(few_multiprocessors: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planes of any size are walked, by few blocks."""
    monkeypatch.setattr(walk_columns, "MIN_WALKED", 1)


def below_sums(x: TensorView, dim: int) -> TensorView:
    return call("sub", x, expand(unsqueeze(total(x, dim), dim), *x.shape))


def is_walked(plan: object) -> None:
    sources = plan.kernels  # type: ignore[attr-defined]
    assert len(sources) == 2
    assert "int group = blockIdx.x" in sources[0].text


@pytest.mark.usefixtures("small_planes")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize("name", SHAPES)
def test_of_channels(name: str, dtype: torch.dtype) -> None:
    """Of the plane, and of what needs the sums of its columns."""
    x = whole(*SHAPES[name], dtype=dtype)
    (a,) = like(x)
    left = below_sums(a, 1)
    sums = total(chain(a, "neg"), 0, 2), call("max", left, dims=(0, 2))
    plan = check(fusion([a], left, *sums), x, orders=ORDERS)
    if x.shape[1] * x.itemsize <= walk_columns.MAX_ROW:
        is_walked(plan)


@pytest.mark.usefixtures("small_planes")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize("name", SHAPES)
def test_of_rows_that_lie_apart(name: str, dtype: torch.dtype) -> None:
    """One plane is read as it lies, one passes through strips; the result lies like the first."""
    x = whole(*SHAPES[name], dtype=dtype)
    y = whole(*SHAPES[name], dtype=dtype).mT.contiguous()
    a, b = like(x, y)
    made = less_its_sums(call("mul", swapped(a), b))
    sums = total(b, 0, 1), total(call("mul", swapped(a), b), 0, 1)
    plan = check(fusion([a, b], swapped(made), *sums), x, y, orders=ORDERS)
    if 2 * x.shape[1] * x.itemsize <= walk_columns.MAX_ROW:
        is_walked(plan)


@pytest.mark.usefixtures("small_planes")
@pytest.mark.parametrize(
    "shape", [(9, 128, 100), (11, 128, 44), (7, 65, 33), (67, 31, 1031), (9, 900, 40)], ids=str
)
def test_of_columns_that_no_number_of_blocks_divides(shape: tuple[int, ...]) -> None:
    """Some blocks have none in the last turn, and one may have few."""
    x, y = whole(*shape), whole(*shape).mT.contiguous()
    a, b = like(x, y)
    made = less_its_sums(call("mul", swapped(a), b))
    sums = total(b, 0, 1), total(call("mul", swapped(a), b), 0, 1)
    plan = check(fusion([a, b], swapped(made), *sums), x, y, orders=ORDERS)
    if 2 * x.shape[1] * x.itemsize <= walk_columns.MAX_ROW:
        is_walked(plan)
    is_walked(check(fusion([a], below_sums(a, 1), total(a, 0, 2)), x, orders=ORDERS))


@pytest.mark.usefixtures("small_planes")
@pytest.mark.parametrize("shape", [(7, 64, 128), (18, 20, 512), (24, 31, 80)], ids=str)
def test_of_channels_of_each_sample(shape: tuple[int, ...]) -> None:
    """Its columns are dealt to blocks of its own."""
    x = whole(*shape)
    (a,) = like(x)
    plan = check(fusion([a], below_sums(a, 1), total(chain(a, "neg"), 2)), x, orders=ORDERS)
    assert "int group = blockIdx.x" in plan.kernels[0].text  # type: ignore[union-attr]


@pytest.mark.usefixtures("small_planes")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((9, 19, 16, 64), torch.bfloat16),
        ((18, 12, 8, 48), torch.float32),
        ((9, 131, 8, 16), torch.bfloat16),
        ((9, 19, 28, 28), torch.bfloat16),  # whole sectors, and vectors of 16 bytes lie in two rows
    ],
    ids=str,
)
def test_of_shares_of_a_few_classes(shape: tuple[int, ...], dtype: torch.dtype, order: str) -> None:
    """In the launch that reads these, though a thread could sum them for each share anew. Threads
    have four bytes of all rows, or of as many as their registers hold."""
    x = torch.randn(*shape).to(dtype)
    (a,) = like(x)
    wide = call("cast", a, dtype=DataType.Float)
    program = fusion([a], call("max", wide, dims=(1,)), total(softmax(wide, 1), 2, 3))
    plan = plan_of(program, *copies([x]), options=Options(thread_order=order))
    text = plan.kernels[0].text  # type: ignore[union-attr]
    assert "int group = blockIdx.x" in text
    lanes, is_whole = 4 // x.element_size(), shape[1] <= 19
    assert f"tf::Vec<{CUDA[dtype]}, {lanes}> v" in text
    assert ("const int part = 0;" in text) == is_whole
    top, sums = (tv.cpu() for tv in plan.run(*copies([x])))
    torch.testing.assert_close(top, x.float().amax(1))
    exact = torch.softmax(x.double(), 1).sum((2, 3))
    torch.testing.assert_close(sums.double(), exact, rtol=1e-5, atol=1e-6)


def gradients(x: TensorView, y: TensorView, dim: int) -> Fusion:
    """What the backward of a layer norm over `dim` does."""
    wide, other = (call("cast", t, dtype=DataType.Float) for t in (x, y))
    products = call("mul", wide, other)

    def spread(sums: TensorView) -> TensorView:
        return expand(unsqueeze(sums, dim), *x.shape)

    made = call("sub", call("sub", other, spread(total(other, dim))), wide)
    made = call("sub", made, call("mul", wide, spread(total(products, dim))))
    dims = [d for d in range(x.ndim) if d != dim]
    sums = [call("cast", total(t, *dims), dtype=x.dtype) for t in (other, products)]
    return fusion([x, y], call("cast", made, dtype=DataType.BFloat16), *sums)


@pytest.mark.parametrize(
    "shape", [(64, 256, 3136), (16, 96, 25088), (64, 384, 784), (64, 768, 196)], ids=str
)
def test_gradients_of_channels_read_their_planes_once(shape: tuple[int, ...]) -> None:
    x, y = (torch.empty(shape, dtype=torch.bfloat16) for _ in range(2))
    segmented, kernels = cuda_kernels(gradients(*like(x, y), 1), x, y)
    assert len(kernels) == 2
    assert isinstance(kernels[0], KeptKernel)
    assert cubin_of(kernels[0]).spill_bytes == 0
    assert segmented.edge_bytes < x.nbytes // 4


@pytest.mark.usefixtures("small_planes")
@pytest.mark.parametrize("rows", [768, 761])
def test_what_is_converted_anew_is_the_same(rows: int) -> None:
    x, y = whole(6, rows, 72, dtype=torch.bfloat16), whole(6, rows, 72, dtype=torch.bfloat16)
    plan = check(gradients(*like(x, y), 1), x, y, orders=ORDERS)
    is_walked(plan)
    assert "tf::renew(" in plan.kernels[0].text


@pytest.mark.usefixtures("small_planes")
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1)], ids=str)
@pytest.mark.parametrize("shape", [(64, 24, 8, 10), (121, 24, 5, 7)], ids=str)
@pytest.mark.parametrize("by_rows", [True, False])
def test_of_permuted_images(shape: tuple[int, ...], order: tuple[int, ...], by_rows: bool) -> None:
    """The channels of images that lie row by row, as what they meet does, or channels innermost;
    so does what is stored."""
    x, y = lying(shape, order), whole(*shape)
    is_walked(check(of_permuted(x, y, by_rows), x, y, orders=ORDERS))


@pytest.mark.usefixtures("one_multiprocessor")
def test_permuted_images_with_channels_innermost_are_walked_by_rows() -> None:
    x, y = (lying((64, 24, 8, 10), (0, 2, 3, 1)) for _ in range(2))
    plan = check(of_permuted(x, y, by_rows=False), x, y, orders=ORDERS)
    assert plan.launches == 2


def lying(shape: tuple[int, ...], order: tuple[int, ...]) -> torch.Tensor:
    return torch.empty_strided(shape, dense_strides(shape, order)).copy_(whole(*shape))


def of_permuted(x: torch.Tensor, y: torch.Tensor, by_rows: bool) -> Fusion:
    """What the backward of a norm of permuted images does."""
    a, b = like(x, y)
    rows, other = (permute(t, 0, 2, 3, 1) for t in (a, b))
    products = call("mul", rows, other)
    left = call("sub", other, expand(unsqueeze(total(products, 3), 3), *other.shape))
    made = permute(less_its_sums(left), 0, 3, 1, 2)
    made = call("stride_order", made, stride_order=(3, 2, 1, 0)) if by_rows else made
    return fusion([a, b], made, total(other, 0, 1, 2), total(products, 0, 1, 2))
