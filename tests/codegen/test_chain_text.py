"""What the text of running sums tells of who waits for whom."""

from __future__ import annotations

import pytest
import torch

from tests.programs import cubin_of, cuda_kernels, fusion, like
from thunder_fuser.codegen.emit import emit
from thunder_fuser.ir.build import call


@pytest.mark.parametrize(
    ("shape", "waits"), [((256, 64), False), ((300, 64), True), ((100_000, 4097), True)], ids=str
)
def test_blocks_wait_where_several_have_rows_and_rows_stay_in_registers(
    shape: tuple[int, int], waits: bool
) -> None:
    x = torch.empty(shape, dtype=torch.bfloat16)
    (a,) = like(x)
    _, (kernel,) = cuda_kernels(fusion([a], call("cumsum", a, dim=0, reverse=False)), x)
    source = emit(kernel)
    assert ("tf::await_mark(" in source.text) == waits
    assert bool(source.tickets) == waits
    assert cubin_of(kernel).spill_bytes == 0


@pytest.mark.parametrize("reverse", [False, True])
def test_single_elements_of_rows_behind_the_last_one_are_not_read(reverse: bool) -> None:
    x = torch.empty(1000, 192)[::2, ::2]
    (a,) = like(x)
    _, (kernel,) = cuda_kernels(fusion([a], call("cumsum", a, dim=0, reverse=reverse)), x)
    text = emit(kernel).text
    rows = [line.strip() for line in text.splitlines() if "const int row =" in line]
    near = "start + (start + k < 500 ? k : 500 - start - 1)"
    assert text.count("= T0[") == len(rows) == 3  # to add up, and to store of a whole batch or not
    assert rows[0] == f"const int row = {f'500 - 1 - ({near})' if reverse else near};"
