"""Rows in shared memory, as text."""

from __future__ import annotations

import pytest
import torch

from tests.codegen.test_row_text import kernel_of, unmarked
from tests.programs import STRICT, cat, check, cubin_of, cuda_kernels, fusion, like, total, whole
from tests.schedule.segments import floats, halves
from tests.schedule.test_rows import centred
from thunder_fuser.codegen.slot_text import in_slot, send_row, slot_arrays
from thunder_fuser.ir.build import call
from thunder_fuser.kernel.row_ir import RowKernel


def test_a_row_that_registers_hold_has_no_slot() -> None:
    x = floats(300, 4096)
    kernel = kernel_of([x], total(x, 1))
    assert slot_arrays(kernel) == []
    assert send_row(kernel, "slot", "turn") == []


def test_each_thread_has_its_own_places_in_a_slot() -> None:
    v, w = halves(400, 40008), halves(400, 40008)
    kernel = kernel_of([v, w], call("mul", centred(v), w))
    (slotted,) = kernel.slotted
    pointer = f"tf::Vec<tf::bf16, 8>* const {slotted.name}_slots"
    assert unmarked(slot_arrays(kernel)) == [
        "TF_DYNAMIC_SHARED(unsigned char, shared);",
        f"{pointer} = reinterpret_cast<tf::Vec<tf::bf16, 8>*>(shared);",
    ]
    place = f"(slot * {kernel.vectors_per_thread} + k) * {kernel.threads} + threadIdx.x"
    assert in_slot(slotted, kernel) == f"{slotted.name}_slots[{place}]"
    (copy,) = (line for line in send_row(kernel, "slot", "turn") if "copy_async" in line)
    assert f"{slotted.name}_slots, {place}" in copy


@pytest.mark.usefixtures("device", "wide_host")
def test_what_some_lanes_read_comes_to_a_slot_in_the_background() -> None:
    """The index of a half that a gather makes: where the element is of that half."""
    x, i = whole(12, 64, 8, dtype=torch.float64), torch.randint(0, 8, (12, 64, 8))
    tv, index = like(x, i)
    chosen = call("take_along_axis", tv, index, dim=2)
    both = cat(chosen, tv, dim=2)
    program = fusion([tv, index], both, total(both, 1, 2))
    _, (kernel,) = cuda_kernels(program, x, i)
    assert isinstance(kernel, RowKernel)
    apart = [a for a in kernel.slotted if a.lane is not None]
    assert len(apart) == 1
    text = "\n".join(send_row(kernel, "slot", "turn"))
    place = "(slot * 1 + k) * 128 + threadIdx.x"
    assert all(f"tf::copy_async_lanes<16>({a.name}_slots, {place}, " in text for a in apart)
    cubin_of(kernel)
    check(program, x, i, options=STRICT)
