"""How many columns a block keeps, and how many threads share them."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch

from tests.programs import H200, cubin_of, expand, like, total, unsqueeze
from tests.schedule.segments import segment_of
from tests.schedule.test_kept_columns import centred
from tests.test_beside_kernels import gradients
from tests.test_turned_image_kernels import gradients as of_turned
from thunder_fuser import pipeline
from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.kernel.kept_ir import KeptKernel
from thunder_fuser.kernel.templates import draft
from thunder_fuser.runtime.bind import bind
from thunder_fuser.schedule import kept_columns
from thunder_fuser.schedule.kept_columns import KeptSchedule
from thunder_fuser.schedule.parameters import KeptParameters, kept_parameters
from thunder_fuser.target import Target, cuda

walk_columns = import_module("thunder_fuser.presegment.walk_columns")  # not the function


def walked(shape: tuple[int, ...], dtype: torch.dtype, is_turned: bool = False) -> KeptSchedule:
    """The gradient of a norm of channels, as blocks walk it; of one plane that is turned."""
    images, rows, places = shape
    x = torch.empty(shape, dtype=dtype)
    y = torch.empty((images, places, rows) if is_turned else shape, dtype=dtype)
    given = like(x, y)
    bound = bind(of_turned(*given) if is_turned else gradients(*given, 1), (x, y))
    dealt = walk_columns.walk_columns(bound.fusion, bound.layouts, H200)
    first, *_ = pipeline.cut_region(dealt, bound.layouts, H200, strict=False).segments
    return kept_columns.schedule_turned(first, H200)


@pytest.mark.parametrize(
    ("dtype", "shape", "across", "down"),
    [
        (DataType.BFloat16, (64, 256, 3136), 8, 32),  # a line of each row
        (DataType.BFloat16, (64, 512, 1024), 4, 64),  # half of one, and several blocks
        (DataType.BFloat16, (8, 2048, 4096), 8, 32),  # of 256 rows each: eight blocks share them
        (DataType.Float, (64, 256, 3136), 8, 32),
        (DataType.BFloat16, (64, 33, 3136), 16, 8),  # no block of fewer than 128 threads
        (DataType.BFloat16, (2, 64, 1024), 2, 64),  # few columns: more blocks
        (DataType.BFloat16, (64, 256, 49), 16, 8),  # of single elements too
        (DataType.Float, (57, 768, 1517), 32, 32),  # a line of floats: a block alone
        (DataType.BFloat16, (57, 768, 1517), 16, 32),
    ],
)
def test_a_line_of_each_row_or_what_registers_leave(
    dtype: DataType, shape: tuple[int, ...], across: int, down: int
) -> None:
    v = tensor(dtype, *shape)
    schedule = kept_columns.schedule(segment_of([v], centred(v)), H200, KeptParameters(odd=False))
    assert (schedule.threads_across, schedule.threads_down) == (across, down)


def test_threads_that_store_no_rows_keep_more_of_them() -> None:
    v = tensor(DataType.BFloat16, 64, 256, 3136)
    wide = call("exp", call("sub", v, expand(unsqueeze(total(v, 1), 1), *v.shape)))
    schedule = kept_columns.schedule(segment_of([v], total(wide, 1)), H200)
    assert (schedule.threads_across, schedule.threads_down) == (8, 16)


def test_two_blocks_are_told_to_the_compiler() -> None:
    few, many = tensor(DataType.BFloat16, 64, 256, 3136), tensor(DataType.BFloat16, 8, 2048, 4096)
    assert kept_columns.schedule(segment_of([few], centred(few)), H200).blocks_at_once is None
    alone = KeptParameters(shares=False)  # a sector of each row, and twice the registers
    told = kept_columns.schedule(segment_of([many], centred(many)), H200, alone)
    assert told.blocks_at_once == 2
    assert "2 threads across, 128 down, 2 blocks on a multiprocessor" in str(told)


@pytest.mark.parametrize(("count", "across", "told"), [(1, 8, 2), (3, 4, None)], ids=str)
def test_what_is_read_once_a_column_is_counted(count: int, across: int, told: int | None) -> None:
    """Told of two blocks that have no registers for that, the compiler spilled it."""
    x, place = tensor(DataType.BFloat16, 16, 384, 3136), tensor(DataType.Int, 16, 3136)
    scales = [tensor(DataType.Float, 16, 3136) for _ in range(count)]
    made = call("sub", x, expand(unsqueeze(total(x, 1), 1), *x.shape))
    for scale in (*scales, call("cast", place, dtype=DataType.Float)):
        made = call("mul", made, expand(unsqueeze(scale, 1), *x.shape))
    segment = segment_of([x, place, *scales], call("cast", made, dtype=x.dtype))
    schedule = kept_columns.schedule(segment, H200)
    assert (schedule.threads_across, schedule.threads_down) == (across, 64)
    assert schedule.blocks_at_once == told


@pytest.mark.parametrize(
    ("shape", "dtype", "tile", "renews"),
    [
        ((64, 320, 784), torch.float32, (8, 64), False),  # a line of 128 bytes, a block alone
        ((64, 192, 784), torch.bfloat16, (8, 64), False),
        ((64, 384, 784), torch.bfloat16, (8, 64), True),
        ((16, 768, 10000), torch.bfloat16, (4, 128), True),  # no room for a line
        ((128, 192, 1517), torch.bfloat16, (32, 8), False),  # no two elements in a register
    ],
)
def test_blocks_that_walk_take_lines(
    shape: tuple[int, ...], dtype: torch.dtype, tile: tuple[int, int], renews: bool
) -> None:
    schedule = walked(shape, dtype)
    assert (schedule.threads_across, schedule.threads_down) == tile
    assert schedule.renews is renews
    assert ("converted anew in each phase" in str(schedule)) == renews
    kernel = draft(schedule.segment, H200, False).lower(False)
    assert cubin_of(kernel).spill_bytes == 0


@pytest.mark.parametrize(
    ("shape", "dtype", "cluster"),
    [
        ((64, 2304, 196), torch.bfloat16, 8),
        ((32, 2304, 784), torch.bfloat16, 8),
        ((32, 1536, 1517), torch.bfloat16, 8),
        ((32, 1280, 650), torch.float32, 4),
        ((32, 2304, 784), torch.float32, 8),
    ],
)
def test_blocks_that_walk_share_long_columns(
    shape: tuple[int, ...], dtype: torch.dtype, cluster: int
) -> None:
    schedule = walked(shape, dtype)
    assert schedule.cluster == cluster
    kernel = draft(schedule.segment, H200, False).lower(False)
    assert cubin_of(kernel).spill_bytes == 0


@pytest.mark.parametrize(
    ("dtype", "shape", "cluster", "down"),
    [
        (DataType.BFloat16, (2674, 512, 49), 2, 10),  # two blocks on a multiprocessor
        (DataType.BFloat16, (668, 512, 196), 4, 10),
        (DataType.Float, (1069, 320, 196), 4, 10),
        (DataType.BFloat16, (10000, 128, 49), 1, 10),
        (DataType.BFloat16, (5000, 101, 81), 1, 6),
        (DataType.Half, (999, 192, 225), 4, 2),  # never one thread down: their columns meet
    ],
)
def test_images_of_short_rows_are_shared_by_as_few_blocks_as_hold_them(
    dtype: DataType, shape: tuple[int, ...], cluster: int, down: int
) -> None:
    v = tensor(dtype, *shape)
    in_registers = KeptParameters(slots=False)
    schedule = kept_columns.schedule(segment_of([v], centred(v)), H200, in_registers)
    assert (schedule.cluster, schedule.threads_down, schedule.slots) == (cluster, down, 0)
    assert schedule.threads_across * schedule.axes.lanes == shape[2]
    assert (f"{cluster} blocks that share rows" in str(schedule)) == (cluster > 1)


@pytest.mark.parametrize(
    "shape",
    [
        (2674, 512, 64),  # rows that are whole lines
        (668, 64, 784),  # and long ones
        (100, 64, 49),  # images that are few
        (20000, 509, 49),  # a number of rows that no cluster divides
        (50000, 40, 49),  # and small ones
    ],
)
def test_other_images_are_kept_by_lines(shape: tuple[int, ...]) -> None:
    v = tensor(DataType.BFloat16, *shape)
    schedule = kept_columns.schedule(segment_of([v], centred(v)), H200)
    assert schedule.cluster == 1
    assert schedule.threads_across in (1, 2, 4, 8, 16, 32, 64)


@pytest.mark.parametrize(
    ("dtype", "shape", "across", "down"),
    [
        (DataType.BFloat16, (2674, 512, 49), 49, 10),
        (DataType.Half, (1783, 768, 49), 49, 10),
        (DataType.Float, (2674, 512, 49), 49, 10),
        (DataType.BFloat16, (5000, 104, 81), 81, 6),
    ],
    ids=str,
)
def test_images_of_odd_rows_pass_through_shared_memory(
    dtype: DataType, shape: tuple[int, ...], across: int, down: int
) -> None:
    v = tensor(dtype, *shape)
    schedule = kept_columns.schedule(segment_of([v], centred(v)), H200)
    assert (schedule.slots, schedule.cluster) == (1, 1)
    assert (schedule.threads_across, schedule.threads_down, schedule.idle) == (across, down, 0)
    assert "1 slots of images" in str(schedule)


@pytest.mark.parametrize(
    ("shape", "target"),
    [
        ((2674, 512, 49), cuda("sm_80", 108)),  # no engine that copies stretches
        ((2674, 512, 49), cuda("sm_120a", 170, shared_bytes=99 * 1024)),  # one block
        ((5000, 101, 81), H200),  # images that are no whole accesses
        ((2674, 128, 196), H200),  # vectors of several elements
        ((300, 512, 49), H200),  # images that are few
        ((20000, 100, 49), H200),  # and small ones
    ],
    ids=str,
)
def test_other_images_are_kept_in_registers(shape: tuple[int, ...], target: Target) -> None:
    v = tensor(DataType.BFloat16, *shape)
    assert kept_columns.schedule(segment_of([v], centred(v)), target).slots == 0


def test_what_is_stored_in_another_type_finds_no_slot() -> None:
    v = tensor(DataType.BFloat16, 2674, 512, 49)
    made = call("cast", centred(v), dtype=DataType.Float)
    assert kept_columns.schedule(segment_of([v], made), H200).slots == 0
    both = segment_of([v], centred(v), call("neg", v))
    assert kept_columns.schedule(both, H200).slots == 0


@pytest.mark.parametrize(
    ("shape", "dtype", "slots", "threads", "groups"),
    [
        ((2674, 512, 49), torch.bfloat16, 2, 512, 128),  # 21 turns
        ((1783, 768, 49), torch.bfloat16, 1, 768, 128),
        ((5348, 256, 49), torch.bfloat16, 2, 512, 255),  # of two blocks on a multiprocessor
        ((2670, 128, 196), torch.bfloat16, 2, 384, 128),
        ((1780, 192, 196), torch.bfloat16, 1, 576, 128),
        ((2674, 512, 49), torch.float32, 0, 490, 5348),  # stored in 16 bits, which find no slot
    ],
    ids=str,
)
def test_blocks_walk_images_beside_sums(
    shape: tuple[int, ...], dtype: torch.dtype, slots: int, threads: int, groups: int
) -> None:
    schedule = walked(shape, dtype)
    assert schedule.slots == slots
    kernel = draft(schedule.segment, H200, False).lower(False)
    assert isinstance(kernel, KeptKernel)
    assert (kernel.threads, kernel.blocks) == (threads, groups)
    assert cubin_of(kernel).spill_bytes == 0


@pytest.mark.parametrize(
    ("shape", "dtype", "slots", "threads", "groups"),
    [
        ((2674, 512, 49), torch.bfloat16, 2, 512, 128),
        ((1337, 1024, 49), torch.bfloat16, 1, 1024, 122),
        ((5348, 256, 49), torch.float32, 2, 512, 131),
        ((2670, 128, 196), torch.bfloat16, 2, 800, 128),  # vectors of four places to registers
    ],
    ids=str,
)
def test_blocks_walk_images_that_are_turned(
    shape: tuple[int, ...], dtype: torch.dtype, slots: int, threads: int, groups: int
) -> None:
    schedule = walked(shape, dtype, is_turned=True)
    assert (schedule.slots, schedule.axes.lanes, schedule.strip) == (slots, 1, None)
    kernel = draft(schedule.segment, H200, False).lower(False)
    assert isinstance(kernel, KeptKernel)
    assert (kernel.threads, kernel.blocks) == (threads, groups)
    assert cubin_of(kernel).spill_bytes == 0


@pytest.mark.parametrize(
    ("shape", "dtype", "told"),
    [((2670, 128, 196), torch.bfloat16, 1), ((5348, 256, 49), torch.bfloat16, None)],
    ids=str,
)
def test_registers_are_told_of_a_block_alone_on_its_multiprocessor(
    shape: tuple[int, ...], dtype: torch.dtype, told: int | None
) -> None:
    schedule = walked(shape, dtype)
    assert schedule.slots
    assert schedule.blocks_at_once == told
    kernel = draft(schedule.segment, H200, False).lower(False)
    assert cubin_of(kernel).spill_bytes == 0


def test_images_that_no_block_holds_pass_through_strips() -> None:
    schedule = walked((668, 512, 196), torch.bfloat16, is_turned=True)
    assert schedule.slots == 0
    assert schedule.axes.lanes > 1
    assert schedule.strip is not None


def test_images_of_which_nothing_is_stored_are_read_by_lines() -> None:
    v = tensor(DataType.BFloat16, 3566, 96, 196)
    reduced = kept_columns.schedule(segment_of([v], total(call("exp", centred(v)), 1)), H200)
    assert reduced.threads_across == 32
    assert kept_columns.schedule(segment_of([v], centred(v)), H200).threads_across == 49


def test_rivals_keep_lines_of_images() -> None:
    v = tensor(DataType.BFloat16, 2674, 512, 49)
    lines = KeptParameters(images=False)
    schedule = kept_columns.schedule(segment_of([v], centred(v)), H200, lines)
    assert schedule.threads_across == 32
    assert lines in kept_parameters(H200)


@pytest.mark.parametrize(
    ("dtype", "cluster"), [(torch.float32, 4), (torch.bfloat16, 1)], ids=["f32", "bf16"]
)
def test_images_of_wide_elements_are_a_group_each(dtype: torch.dtype, cluster: int) -> None:
    schedule = walked((1069, 320, 196), dtype)
    assert schedule.cluster == cluster
    assert schedule.beside is not None
    assert (schedule.beside.group.size == 1069) == (cluster > 1)
    kernel = draft(schedule.segment, H200, False).lower(False)
    assert cubin_of(kernel).spill_bytes == 0


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((20000, 33, 196), torch.float16), ((2000, 33, 1517), torch.float32)],
)
def test_all_blocks_that_walk_small_tiles_are_there_at_once(
    shape: tuple[int, int, int], dtype: torch.dtype
) -> None:
    """Those that are not would walk behind the others, few at a time."""
    planned = walked(shape, dtype, is_turned=True)
    assert planned.beside is not None
    assert planned.blocks_at_once == ceil_div(planned.beside.group.size, H200.multiprocessors) > 3
    kernel = draft(planned.segment, H200, False).lower(False)
    assert cubin_of(kernel).spill_bytes == 0
