"""Which running sums have their rows in shared memory, and how many rows a block has."""

from __future__ import annotations

import pytest
import torch

from tests.programs import cuda_kernels, fusion, like
from thunder_fuser.ir.build import call
from thunder_fuser.kernel.column_ir import ColumnKernel


@pytest.mark.parametrize(
    ("shape", "dim", "expected"),
    [
        ((10_000_000, 3), 0, (1, 256, 40)),
        ((1 << 20, 4), 0, (1, 256, 10)),  # a row is a vector; three blocks a multiprocessor
        ((16, 100_000, 6), 1, (1, 256, 12)),
        ((10_007, 1000, 7), 1, (1, 125, 8)),  # no more threads than an image has runs
        ((1 << 20, 64), 0, None),  # lines
        ((100_000, 128, 3), 1, None),  # a thread has a column
    ],
)
def test_rows_of_less_than_a_line_are_staged(
    shape: tuple[int, ...], dim: int, expected: tuple[int, int, int] | None
) -> None:
    x = torch.empty(shape, dtype=torch.bfloat16)
    (a,) = like(x)
    _, (kernel,) = cuda_kernels(fusion([a], call("cumsum", a, dim=dim, reverse=False)), x)
    assert isinstance(kernel, ColumnKernel)
    assert bool(kernel.stretches) == (expected is not None)
    if expected is not None:
        assert (kernel.threads_across, kernel.threads_down, kernel.batch) == expected
        assert kernel.shared_bytes < 68 * 1024
