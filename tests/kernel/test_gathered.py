"""What a walked row has one of: if its sums wait for it, in shared memory before the rows come,
else brought by each row."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.devices import ORDERS
from tests.kernel.test_rows import along, kernel_of, runs
from tests.programs import (
    H200,
    SMALL,
    check,
    cubin_of,
    cuda_kernels,
    fusion,
    like,
    machine,
    permute,
    reshape,
    run,
    total,
    whole,
)
from tests.schedule.segments import floats, segment_of
from thunder_fuser.codegen.emit import emit
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.kernel.source import Source
from thunder_fuser.options import Options
from thunder_fuser.presegment.split_reductions import split_reductions
from thunder_fuser.schedule.parameters import RowParameters, row_parameters
from thunder_fuser.schedule.rows import schedule
from thunder_fuser.segment.segment import Segment

BARRIER = ">();\n  __syncthreads();\n"  # behind the copies of what is gathered


def squares(x: TensorView, *means: TensorView) -> tuple[TensorView, TensorView]:
    """Of a plane's distances from a value per row, each times the sum of their squares in its row,
    and their sums down the columns."""
    wide = call("cast", x, dtype=means[0].dtype)
    for mean in means:
        far = call("cast", along(mean, x.shape[1]), dtype=means[0].dtype)
        wide = call("sub", wide, far)
    by = along(total(call("mul", wide, wide), 1), x.shape[1])
    return call("mul", wide, by), total(wide, 0)


def walked(
    *shape: int, dtype: torch.dtype = torch.float32, count: int = 1, multiprocessors: int = 8
) -> RowKernel:
    """The kernel that walks such rows."""
    x, mean = torch.empty(shape, dtype=dtype), torch.empty(shape[0])
    a, b = like(x, mean)
    target = replace(H200, multiprocessors=multiprocessors)
    program = fusion([a, b], *squares(a, *[b] * count))
    dealt = split_reductions(program, machine(multiprocessors, target.max_cluster))
    _, (kernel, *_) = cuda_kernels(dealt, x, mean, target=target)
    assert isinstance(kernel, RowKernel)
    assert kernel.sums
    return kernel


def test_what_sums_wait_for_is_there_before_rows_are_walked() -> None:
    kernel = walked(1024, 4096)
    (mean,), (row,) = kernel.gathered, kernel.slotted
    assert (mean.pointer, kernel.once, kernel.axes.turn.size) == ("T2", (), 64)
    assert kernel.shared_bytes == kernel.slots * kernel.row_bytes(row) + 4 * 64
    assert f"  {mean.name} = gathered T2[16*turn + group], 1 x f32, 4 bytes at a time" in str(
        kernel
    )
    text = emit(kernel).text.rsplit('extern "C"', 1)[1]
    before, walk = text.split("await_copies", 1)
    assert f"turn < 64; turn += {kernel.threads}" in before
    assert before.count("T2 +") == 1
    assert "T2 +" not in walk
    assert f"{mean.name}_rows[turn]" in walk


def scaled(rows: int, dtype: DataType = DataType.Float) -> Segment:
    """Rows times their sum and a factor each, and the sums down the columns of 16 groups."""
    x, factor = floats(rows, 4096), tensor(dtype, rows)
    by = along(call("mul", call("cast", factor, dtype=DataType.Float), total(x, 1)), 4096)
    parts = permute(reshape(x, rows // 16, 16, 4096), 1, 0, 2)
    return segment_of([x, factor], call("mul", x, by), total(parts, 1))


def test_what_is_read_behind_the_sums_is_brought_by_its_row() -> None:
    segment = scaled(1024)
    kernel = kernel_of(segment)
    (factor,), (row,) = kernel.brought, kernel.slotted
    assert (kernel.gathered, kernel.once) == ((), ())
    assert kernel.slots < kernel.places <= 2 * kernel.slots
    assert kernel.shared_bytes == kernel.slots * kernel.row_bytes(row) + 4 * kernel.places
    assert f"  {factor.name} = brought T1[16*turn + group], 1 x f32, 4 bytes at a time" in str(
        kernel
    )
    walk = emit(kernel).text.rsplit("for (int turn", 1)[1]
    sums, rest = walk.split("__syncthreads", 1)
    assert "T1 +" not in sums
    assert f"{factor.name}_places[turn % {kernel.places}]" in rest
    assert f"{factor.name}_places, (turn + {kernel.slots}) % {kernel.places}, T1 +" in rest


def test_two_bytes_are_copied_by_no_hardware_in_the_background() -> None:
    kernel = kernel_of(scaled(1024, DataType.BFloat16))
    assert kernel.brought == ()
    assert [a.pointer for a in kernel.once] == ["T1"]


def test_turns_that_load_it_themselves_are_tried_as_well() -> None:
    found = schedule(scaled(1024), H200, RowParameters(brings=False))
    assert not found.residency.brought
    assert RowParameters(brings=False) in row_parameters(H200)


def test_a_place_that_some_threads_may_still_read_is_not_written() -> None:
    """As many places as slots would be too few: all have met in the turn before alone."""
    kernel = kernel_of(scaled(1024))
    source, slots = emit(kernel), kernel.slots
    x, factor = torch.randint(-4, 5, (1024, 4096)).float(), torch.randint(1, 5, (1024,)).float()
    wanted = x * (x.sum(1) * factor)[:, None], x.reshape(64, 16, 4096).sum(0)

    def is_right(order: str, made: Source) -> bool:
        found = torch.empty(1024, 4096), torch.empty(16, 4096)
        return runs(made, order, x, factor, *found) and all(map(torch.equal, found, wanted))

    assert all(is_right(order, source) for order in ORDERS)
    text = source.text.replace(f" % {kernel.places}", f" % {slots}")
    few = replace(source, fragments=(text,), literals=())
    assert not all(is_right(order, few) for order in ORDERS)


def test_of_more_rows_than_there_is_room_for_each_is_loaded_in_its_turn() -> None:
    assert walked(8 * 1024, 4096, multiprocessors=4).gathered
    kernel = walked(16 * 1024, 4096, multiprocessors=4)
    assert (kernel.axes.turn.size, kernel.gathered) == (2048, ())
    assert [a.pointer for a in kernel.once] == ["T2"]


def test_an_index_that_a_tensor_holds_is_located_in_its_turn() -> None:
    index = torch.empty(1024, dtype=torch.int64)
    x, table = torch.empty(1024, 4096), torch.empty(7)
    a, b, at = like(x, table, index)
    mean = call("index_select", b, at, dim=0)
    program = split_reductions(fusion([a, b, at], *squares(a, mean)), machine(8, 1))
    _, (kernel, *_) = cuda_kernels(program, x, table, index, target=SMALL)
    assert isinstance(kernel, RowKernel)
    assert kernel.located
    assert kernel.gathered == ()


@pytest.mark.parametrize("columns", [4096, 5000, 50257])
def test_what_gathers_does_not_spill(columns: int) -> None:
    kernel = walked(16384, columns, dtype=torch.bfloat16, multiprocessors=132)
    assert kernel.gathered
    assert cubin_of(kernel).spill_bytes == 0


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device", "one_multiprocessor")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("extents", [(1024, 515), (1021, 1029), (517, 2048), (67, 8196)])
def test_values_of_rows_in_two_widths(extents: tuple[int, int], order: str) -> None:
    """Of an odd number of rows those of 4 bytes end where those of 8 would not be aligned."""
    x, low, high = torch.randn(extents), torch.randn(extents[0]), torch.randn(extents[0]).double()
    a, b, c = like(x, low, high)
    program = fusion([a, b, c], *squares(a, c, b))
    found = run(program, x, low, high, options=Options(thread_order=order))
    away = x.double() - high[:, None] - low.double()[:, None]
    wanted = away * (away * away).sum(1, True), away.sum(0)
    for got, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(got.cpu(), want, rtol=1e-9, atol=1e-9)


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device", "few_multiprocessors")
@pytest.mark.parametrize("extents", [(1024, 4096), (1021, 2048), (4099, 768), (68, 16392)])
def test_what_is_gathered_may_be_written_in_place(extents: tuple[int, int]) -> None:
    """By each row for itself: a mean becomes what it was and the sum of what is left."""
    x, mean = whole(*extents), whole(extents[0])
    a, b = like(x, mean)
    away = call("sub", a, along(b, extents[1]))
    left = total(away, 1)
    made = call("add", away, along(left, extents[1]))
    check(fusion([a, b], made, total(made, 0), writes=[(call("add", b, left), b)]), x, mean)


def test_rows_that_do_not_wait_for_what_is_gathered_show_in_some_order() -> None:
    x, mean = torch.randint(-4, 5, (256, 4096)).float(), torch.randint(-4, 5, (256,)).float()
    a, b = floats(256, 4096), floats(256)
    away = call("sub", a, along(b, 4096))
    parts = permute(reshape(away, 64, 4, 4096), 1, 0, 2)
    segment = segment_of([a, b], along(total(away, 1), 4096), total(parts, 1))
    source = emit(kernel_of(segment))
    assert source.text.count(BARRIER) == 1
    text = source.text.replace(BARRIER, ">();\n")
    wrong = replace(source, fragments=(text,), literals=())
    far = x - mean[:, None]
    wanted = far.sum(1, True).expand(256, 4096), far.reshape(64, 4, -1).sum(0)

    def is_wrong(order: str, early: bool) -> bool:
        found = torch.empty(256, 4096), torch.empty(4, 4096)
        made = wrong if early else source
        return not (runs(made, order, x, mean, *found) and all(map(torch.equal, found, wanted)))

    assert not any(is_wrong(order, early=False) for order in ORDERS)
    assert any(is_wrong(order, early=True) for order in ORDERS)
