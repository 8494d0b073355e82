"""Rows in shared memory, as text."""

from __future__ import annotations

from tests.codegen.test_row_text import kernel_of, unmarked
from tests.programs import total
from tests.schedule.segments import floats, halves
from tests.schedule.test_rows import centred
from thunder_fuser.codegen.slot_text import in_slot, send_row, slot_arrays
from thunder_fuser.ir.build import call


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
