"""Blocks that walk rows with sums down their columns: together they meet each row once."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest
import torch

from tests.kernel.test_shifted import gradient
from tests.presegment.test_group_rows import away, in_stretches
from tests.programs import H200, cuda_kernels, fusion, like, machine
from thunder_fuser.analysis.digits import evaluate
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.presegment.split_reductions import split_reductions
from thunder_fuser.schedule.row_axes import RowAxes

BF16, F32 = torch.bfloat16, torch.float32


def walked(
    rows: int, columns: int, dtype: torch.dtype, multiprocessors: int
) -> tuple[RowKernel, ...]:
    """The kernels that walk the rows of something like the gradient of a norm."""
    x, w = torch.empty((rows, columns), dtype=dtype), torch.empty(columns, dtype=dtype)
    a, b = like(x, w)
    target = replace(H200, multiprocessors=multiprocessors)
    program = fusion([a, b], *gradient(a, b))
    made = split_reductions(program, machine(multiprocessors, target.max_cluster))
    _, kernels = cuda_kernels(made, x, w, target=target)
    return tuple(k for k in kernels if isinstance(k, RowKernel) and k.sums)


def met(axes: RowAxes) -> list[int]:
    """The rows of all groups, of each until the first row of a turn is beyond the plane; of ragged
    turns those sides that have one."""
    found = []
    for group in range(axes.group.size):
        turns = axes.turn.size
        while _row(axes, group, turns - 1, 0) >= axes.rows:
            turns -= 1
        sides = range(1 if axes.side is None else axes.side.size)
        found += [_row(axes, group, turn, side) for turn in range(turns) for side in sides]
    return [row for row in found if row < axes.rows or not axes.is_ragged]


def _row(axes: RowAxes, group: int, turn: int, side: int) -> int:
    sides = {} if axes.side is None else {axes.side: side}
    return evaluate(axes.row, {axes.group: group, axes.turn: turn, **sides})


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "multiprocessors", "is_uneven"),
    [
        (4096, 4096, BF16, 8, False),
        (4099, 4096, BF16, 8, True),
        (4099, 4097, BF16, 8, True),
        (1031, 50257, BF16, 8, True),  # clusters
        (32 * 257, 128, BF16, 2, True),  # several side by side
        (8 * 1021, 512, BF16, 2, True),
        (28603, 256, F32, 132, True),
        (1021, 512, BF16, 1, True),  # the last turn has fewer rows than a block has side by side
        (2053, 300, BF16, 2, True),  # the same of rows that begin in one lane
        (2112, 300, BF16, 2, False),
    ],
)
def test_each_row_is_walked_once(
    rows: int, columns: int, dtype: torch.dtype, multiprocessors: int, is_uneven: bool
) -> None:
    kernels = walked(rows, columns, dtype, multiprocessors)
    assert any(k.axes.is_uneven for k in kernels) == is_uneven
    for kernel in kernels:
        assert sorted(met(kernel.axes)) == list(range(rows))
        assert kernel.slots <= kernel.axes.fewest


@pytest.mark.parametrize(
    ("shape", "threads", "has_idle"),
    [((37, 8, 17, 17), 288, True), ((13, 8, 40, 15), 320, False), ((41, 8, 16, 16), 256, False)],
)
def test_each_row_of_images_is_walked_once_by_whole_warps(
    shape: tuple[int, ...], threads: int, has_idle: bool
) -> None:
    x = torch.empty(shape, dtype=BF16)
    target = replace(H200, multiprocessors=1)
    _, kernels = cuda_kernels(in_stretches(away(*like(x))), x, target=target)
    kernel = kernels[0]
    assert isinstance(kernel, RowKernel)
    assert sorted(met(kernel.axes)) == list(range(prod(shape[:-1])))
    assert (kernel.threads, kernel.has_idle) == (threads, has_idle)
    assert "  after the rows of each side" in str(kernel)
    moved = kernel.slots * kernel.rows_per_block * shape[-1] * BF16.itemsize
    assert kernel.shared_bytes == moved + moved // kernel.slots  # and none for sums that meet
