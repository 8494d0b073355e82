"""Rows of odd length, in vectors that are aligned in the plane."""

from __future__ import annotations

import re

import pytest
import torch

from tests.devices import copies
from tests.kernel.test_rows import along, kernel_of
from tests.programs import (
    H200,
    SMALL,
    cat,
    chain,
    cubin_of,
    cuda_kernels,
    expand,
    fusion,
    like,
    machine,
    permute,
    plan_of,
    reshape,
    run,
    run_in_orders,
    total,
    unsqueeze,
)
from tests.schedule.segments import floats, halves, segment_of
from tests.schedule.test_streams import denominator, softmax
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.codegen.emit import emit
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.options import Options
from thunder_fuser.presegment.split_reductions import split_reductions
from thunder_fuser.schedule import rows, streams


def with_weights(rows: int, columns: int) -> RowKernel:
    """Of a norm with two weights, in bf16: its rows have no edges."""
    x, w, b = halves(rows, columns), floats(columns), floats(columns)
    made = call("cast", call("add", normed(x, w), b), dtype=DataType.BFloat16)
    return kernel_of(segment_of([x, w, b], made))


def test_loads_end_with_the_plane_and_stores_with_the_row() -> None:
    text = str(with_weights(6, 4097))
    flat, first = "8*((4097*group)/8) + 8*vector", "-4097*group + 8*((4097*group)/8) + 8*vector"
    (load,) = (line for line in text.splitlines() if "= load T0" in line)
    (store,) = (line for line in text.splitlines() if "store w0" in line)
    assert load.endswith(f"T0[{flat}], 8 x bf16, 16 bytes at a time where 0 <= {flat} < 24582")
    assert store.endswith(f"[{flat}], 8 x bf16, 16 bytes at a time where 0 <= {first} < 4097")
    assert f" where 0 <= {first} + lane < 4097" in text


@pytest.mark.parametrize(("count", "is_constant"), [(1, False), (2, True)])
def test_weights_are_loaded_ahead_where_there_are_registers(count: int, is_constant: bool) -> None:
    """Two tensors leave room for three blocks of a cluster each, which have 80 registers."""
    planes, w = [halves(1335, 50257) for _ in range(count)], halves(50257)
    x = planes[0] if count == 1 else call("mul", *planes)
    made = call("cast", normed(x, w), dtype=DataType.BFloat16)
    kernel = kernel_of(segment_of([*planes, w], made))
    assert ("tf::load_inside<tf::bf16, 8, 2, true>(T" in emit(kernel).text) is is_constant
    assert cubin_of(kernel).spill_bytes == 0


@pytest.mark.parametrize(("columns", "held", "threads"), [(257, 2, 16), (1023, 4, 32)])
def test_vectors_of_rows_with_edges_lie_in_their_rows(
    columns: int, held: int, threads: int
) -> None:
    x = halves(6, columns)
    kernel = kernel_of(segment_of([x], softmax(x)))
    assert "lanes 8 and edges" in str(kernel)
    assert "where" not in str(kernel)
    assert (kernel.vectors_per_thread, kernel.places_per_thread) == (held, held + 1)
    assert kernel.threads_per_row == threads


@pytest.mark.parametrize(
    ("columns", "vectors", "loaded"),
    [
        (4097, 513, ""),
        (4098, 513, ""),
        (4100, 513, ""),
        (4099, 514, "where 0 <= 8*((4099*group)/8) + 8*vector < 65584, all or none of them"),
        (4102, 514, "where 0 <= 8*((4102*group)/8) + 8*vector < 65632, all or none of them"),
        (4103, 514, "where 0 <= 8*((4103*group)/8) + 8*vector < 65648, all or none of them"),
    ],
)
def test_no_vector_is_cut_where_the_plane_ends_with_one(
    columns: int, vectors: int, loaded: str
) -> None:
    kernel = with_weights(16, columns)
    assert kernel.vector.size == vectors
    (load,) = (line for line in str(kernel).splitlines() if "= load T0" in line)
    assert load.split("bytes at a time")[1].strip() == loaded


@pytest.mark.parametrize(("columns", "is_shifted"), [(769, False), (1025, True)])
def test_short_rows_with_weights_are_not_shifted(columns: int, is_shifted: bool) -> None:
    """Each row would put the weights' vectors together."""
    x, w = halves(300, columns), floats(columns)
    assert rows.schedule(segment_of([x, w], normed(x, w)), H200).axes.is_shifted == is_shifted
    assert with_weights(300, columns + 3072).axes.is_shifted == is_shifted
    scores, bias = halves(300, 7, columns), halves(7, columns)
    both = call("add", scores, expand(unsqueeze(bias, 0), *scores.shape))
    rest = call("sub", both, expand(unsqueeze(total(both, 2), 2), *both.shape))
    segment = segment_of([scores, bias], rest)
    assert rows.schedule(segment, H200).axes.is_shifted == is_shifted


@pytest.mark.parametrize(
    ("columns", "is_shifted"), [(223, False), (225, True), (256, False), (4100, True)]
)
def test_rows_shift_where_their_length_is_no_multiple_of_the_lanes(
    columns: int, is_shifted: bool
) -> None:
    x = halves(6, columns)
    axes = rows.schedule(segment_of([x], softmax(x)), H200).axes
    assert axes.is_shifted == is_shifted
    assert axes.lanes == (8 if columns > 223 else 1)


def test_a_plane_that_is_strided_or_misaligned_or_turned_is_not_shifted() -> None:
    x = halves(6, 257)
    for layout in (Layout((6, 257), (300, 1)), Layout((6, 257), (257, 1), alignment=2)):
        assert not rows.schedule(
            segment_of([x], softmax(x), lies={x: layout}), H200
        ).axes.is_shifted
    turned = permute(halves(257, 6), 1, 0)
    assert turned.definition is not None
    (source,) = turned.definition.tensors
    assert not rows.schedule(segment_of([source], softmax(turned)), H200).axes.is_shifted


@pytest.mark.parametrize(
    ("shape", "dims", "is_shifted"),
    [
        ((6, 9, 29), (1, 2), True),
        ((2, 3, 9, 29), (2, 3), True),
        ((2, 3, 261), (2,), True),
        ((6, 9, 28), (1, 2), False),  # whole vectors
        ((7, 37, 55), (0, 1, 2), True),
        ((9, 6, 259), (0, 2), False),  # each stretch of a row begins in another lane
    ],
)
def test_rows_of_several_dims_shift_where_they_are_a_stretch(
    shape: tuple[int, ...], dims: tuple[int, ...], is_shifted: bool
) -> None:
    x = floats(*shape)
    axes = rows.schedule(segment_of([x], total(x, *dims)), H200).axes
    assert axes.is_shifted == is_shifted


@pytest.mark.parametrize(("groups", "is_shifted"), [(1, True), (2, False)])
def test_rows_that_results_must_know_to_lie_in_are_not_shifted(
    groups: int, is_shifted: bool
) -> None:
    """Of several groups a channel is one only inside a row."""
    x = floats(5, 6, 17, 19)
    parts = reshape(x, 5, groups, 6 // groups, 17 * 19)
    spread = expand(unsqueeze(unsqueeze(total(parts, 2, 3), 2), 3), *parts.shape)
    made = reshape(call("sub", parts, spread), *x.shape)
    planned = rows.schedule(segment_of([x], made), H200)
    assert planned.axes.is_shifted == is_shifted
    assert planned.axes.lanes == (4 if is_shifted else 1)


def test_rows_of_several_dims_have_the_kernels_of_one() -> None:
    def text(*row: int) -> str:
        x, w, b = halves(6, *row), floats(*row), floats(*row)
        wide, dims = call("cast", x, dtype=DataType.Float), tuple(range(1, x.ndim))
        made = total(wide, *dims)
        for dim in dims:
            made = unsqueeze(made, dim)
        weight, bias = (expand(unsqueeze(tv, 0), *x.shape) for tv in (w, b))
        made = call("add", call("mul", call("mul", expand(made, *x.shape), wide), weight), bias)
        return re.sub(r"T\d+", "T", str(kernel_of(segment_of([x, w, b], made))))

    column = "-4097*group + 4*((4097*group)/4) + 4*vector"
    assert f"T[{column}], 4 x f32, 4 bytes at a time where 0 <= {column} < 4097" in text(4097)
    assert text(17, 241) == text(4097)


def normed(x: TensorView, weight: TensorView) -> TensorView:
    """x / sqrt(mean(x * x)) * weight, over the last dim."""
    columns = x.shape[-1]
    wide = call("cast", x, dtype=DataType.Float)
    flat = reshape(wide, x.shape[0] * x.shape[1], columns) if x.ndim == 3 else wide
    scale = chain(total(call("mul", flat, flat), 1), "rsqrt")
    made = call("mul", call("mul", flat, along(scale, columns)), weight)
    return reshape(made, *x.shape) if x.ndim == 3 else made


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize(
    "extents",
    [(5, 257), (3, 1001), (2, 3, 513), (1, 4097), (8, 257), (8, 258), (16, 259), (4, 262)],
)
def test_a_norm_with_weights(extents: tuple[int, ...], dtype: torch.dtype) -> None:
    x, w = torch.randn(extents).to(dtype), torch.randn(extents[-1])
    a, b = like(x, w)
    _, results = run_in_orders(fusion([a, b], normed(a, b)), x, w, options=Options())
    wide = x.double()
    wanted = wide / wide.square().sum(-1, True).sqrt() * w.double()
    for (found,) in results:
        torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("columns", [257, 259, 260, 4097])
def test_softmax_in_place_leaves_the_rows_beside_alone(columns: int) -> None:
    x = torch.randn(7, columns)
    want = torch.softmax(x.double(), 1)
    (a,) = like(x)
    (target,) = copies([x])
    plan = plan_of(fusion([a], writes=[(softmax(a), a)]), target, options=Options())
    plan.run(target)
    torch.testing.assert_close(target.cpu().double(), want, rtol=1e-5, atol=1e-7)


def test_a_block_with_sums_in_registers_has_one_form_of_its_stores() -> None:
    x, w = torch.empty(1024, 515, dtype=torch.bfloat16), torch.empty(515, dtype=torch.bfloat16)
    a, b = like(x, w)
    _, (kernel, _) = cuda_kernels(
        split_reductions(fusion([a, b], *gradient(a, b)), machine(4)), x, w, target=SMALL
    )
    assert isinstance(kernel, RowKernel)
    assert (kernel.cluster, len(kernel.final.stores)) == (1, 1)
    stores = [line for line in emit(kernel).text.splitlines() if "tf::store_within<" in line]
    assert [line.endswith("tf::No{});") for line in stores] == [True, *[False] * len(kernel.sums)]


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("identity", ["min", "prod"])
def test_what_lies_beside_the_row_is_in_no_reduction(identity: str) -> None:
    x = torch.rand(9, 300 + 1) + 0.5
    (a,) = like(x)
    (found,) = run(fusion([a], call(identity, a, dims=(1,))), x, options=Options())
    wanted = x.amin(1) if identity == "min" else x.double().prod(1).float()
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=0)


@pytest.mark.usefixtures("device")
def test_a_long_row_of_odd_length_is_streamed() -> None:
    x = torch.randn(5, 8195)
    (a,) = like(x)
    program = fusion([a], denominator(a))
    (found,) = run(program, x, options=Options())
    torch.testing.assert_close(found.cpu(), torch.exp(x - x.amax(1, True)).sum(1))
    y = floats(5, 8195)
    found_axes = streams.schedule(segment_of([y], denominator(y)), H200).rows.axes
    assert found_axes.is_shifted


@pytest.mark.usefixtures("device")
def test_a_reduction_that_is_broadcast_over_a_middle_dim() -> None:
    x = torch.randn(4, 3, 301)
    (a,) = like(x)
    mean = call("broadcast_in_dim", total(a, 2), shape=x_shape(a), broadcast_dims=(0, 1))
    (found,) = run(fusion([a], call("sub", a, mean)), x, options=Options())
    torch.testing.assert_close(found.cpu(), x - x.sum(-1, True), rtol=1e-5, atol=1e-4)


def x_shape(tv: TensorView) -> tuple[object, ...]:
    return tuple(a.extent for a in tv.logical)


def gradient(x: TensorView, w: TensorView) -> tuple[TensorView, TensorView]:
    """Of a norm, in what matters here: rows that need a sum along themselves and weights, and a
    sum down the columns of what needs it too."""
    wide = call("cast", x, dtype=DataType.Float)
    by = along(total(call("mul", wide, w), 1), x.shape[1])
    return call("sub", call("mul", wide, w), by), total(call("mul", wide, by), 0)


# Whether blocks walk aligned vectors: not where they all begin with a vector. No number of blocks
# divides a prime number of rows, nor 1610 such that all rows of a block begin in one lane.
WALKED = {
    (1024, 515): True,
    (1024, 518): True,
    (1536, 1029): True,
    (2 * 5 * 7 * 23, 517): True,
    (1021, 518): True,
    (1024, 516): False,
    (1021, 516): False,
}


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device", "one_multiprocessor")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("extents", WALKED)
def test_rows_are_walked_beside_sums_down_their_columns(
    extents: tuple[int, int], dtype: torch.dtype
) -> None:
    x, w = torch.randn(extents).to(dtype), torch.randn(extents[1]).to(dtype)
    a, b = like(x, w)
    _, results = run_in_orders(fusion([a, b], *gradient(a, b)), x, w, options=Options())
    wide = x.double() * w.double()
    by = wide.sum(1, True)
    for away, columns in results:
        torch.testing.assert_close(away.double(), wide - by, rtol=1e-4, atol=1e-3)
        # Terms are about 20, and so are the columns' sums of a thousand of them about 700.
        exact = (x.double() * by).sum(0)
        torch.testing.assert_close(columns.double(), exact, rtol=1e-4, atol=2e-2)


@pytest.mark.parametrize(("extents", "is_shifted"), WALKED.items())
def test_a_block_walks_rows_that_begin_in_one_lane(
    extents: tuple[int, int], is_shifted: bool
) -> None:
    x, w = torch.empty(extents, dtype=torch.bfloat16), torch.empty(extents[1], dtype=torch.bfloat16)
    a, b = like(x, w)
    program = split_reductions(fusion([a, b], *gradient(a, b)), machine(4))
    _, (kernel, _) = cuda_kernels(program, x, w, target=SMALL)
    assert isinstance(kernel, RowKernel)
    assert kernel.sums
    assert kernel.axes.is_shifted == is_shifted
    assert kernel.axes.lanes == 4
    assert kernel.axes.is_uneven == (extents[0] not in (1024, 1536))


LENGTHS = [4097, 8195, 5000, 24576, 32768, 36865, 50256, 50257, 65536, 90112]


@pytest.mark.parametrize("columns", LENGTHS)
def test_walked_rows_of_any_length_do_not_spill(columns: int) -> None:
    """With two sums down the columns, as the gradient of a layer norm. A cluster has long ones."""
    x, w = (
        torch.empty(shape, dtype=torch.bfloat16, device="meta")
        for shape in ((8192, columns), (columns,))
    )
    a, b = like(x, w)
    program = fusion([a, b], *gradient(a, b), total(a, 0))
    dealt = split_reductions(program, H200)
    _, (kernel, *_) = cuda_kernels(dealt, x, w)
    assert isinstance(kernel, RowKernel)
    assert len(kernel.sums) == 2
    assert (kernel.cluster > 1) == (columns > 8192)
    assert cubin_of(kernel).spill_bytes == 0


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dtype", [torch.int8, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("offset", range(9))
def test_weights_that_lie_anywhere_are_loaded_in_aligned_words(
    offset: int, dtype: torch.dtype
) -> None:
    x = torch.randn(5, 1027).to(torch.bfloat16)
    store = torch.randint(-100, 100, (1027 + offset,)).to(dtype)
    (target,) = copies([store])
    w = target[offset:]
    a, b = like(x, w)
    kernel = kernel_of(segment_of([a, b], normed(a, call("cast", b, dtype=DataType.Float))))
    (load,) = kernel.final.loads
    assert (load.length, load.access_bytes) == (4, dtype.itemsize)
    program = fusion([a, b], normed(a, call("cast", b, dtype=DataType.Float)))
    (found,) = run(program, copies([x])[0], w, options=Options())
    wide = x.double()
    wanted = wide / wide.square().sum(-1, True).sqrt() * store[offset:].double()
    torch.testing.assert_close(found.cpu().double(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dim", [0, 1])
def test_a_piece_of_the_plane_is_not_read_beside_itself(dim: int) -> None:
    """Its elements have the places that the plane's first ones have, and it ends before these."""
    sizes = [(9, 4097), (300, 4097)] if dim == 0 else [(309, 1335), (309, 2762)]
    pieces = [torch.empty(size, dtype=torch.bfloat16) for size in sizes]
    a, b = like(*pieces)
    joined = cat(a, b, dim=dim)
    peak = expand(unsqueeze(call("max", joined, dims=(1,)), 1), 309, 4097)
    _, kernels = cuda_kernels(fusion([a, b], call("sub", joined, peak)), *pieces)
    text = emit(kernels[0]).text
    assert "load_within" not in text[text.index("__launch_bounds__") :]
