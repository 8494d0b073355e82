"""Rows in shared memory as C++ text: slots that copies in the background fill, and what is beside.

A thread's vectors lie in its own places, which no other thread reads; so do weights that are
stowed. What each row has one of, which all threads read, is gathered for all rows of the block if
their sums wait for it; if it is read behind their barrier alone, each row brings it. Loaded in
every turn it was waited for before the sums wherever the compiler let it share a scoreboard with
something else: the gradient of rmsnorm, 16384 x 4096 in bf16, took 119 us then, and 101 elsewhere.
"""

from __future__ import annotations

from thunder_fuser.codegen.blocks import by_first_thread, enclosed, unrolled
from thunder_fuser.codegen.row_loops import is_whole, located, over_vectors, with_whole
from thunder_fuser.codegen.row_threads import turns_text
from thunder_fuser.codegen.shared_text import arrays_in_shared
from thunder_fuser.codegen.statements import copy_text, load_call, vector_type
from thunder_fuser.codegen.types import index_type
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.kernel.statements import VectorAccess


def slot_arrays(kernel: RowKernel) -> list[str]:
    """Shared memory for rows and weights: each thread's vectors, which no other thread reads; and
    for what all threads read of each row."""
    places = [(a, "slots", kernel.slots * kernel.row_bytes(a)) for a in kernel.slotted]
    places += [(a, "slots", kernel.row_bytes(a)) for a in kernel.stowed]
    of_rows = [(a, "rows", kernel.gathered_bytes(a)) for a in kernel.gathered]
    of_rows += [(a, "places", kernel.brought_bytes(a)) for a in kernel.brought]
    places += sorted(of_rows, key=lambda place: -place[0].dtype.itemsize)  # all are aligned
    arrays = [(f"{a.name}_{held}", vector_type(a), size) for a, held, size in places]
    return arrays_in_shared(arrays) if arrays else []


def send_row(kernel: RowKernel, slot: str, turn: str) -> list[str]:
    """Start to copy the row of that turn."""
    names = {**kernel.names, kernel.axes.turn: turn}
    copies = [
        copy_text(a, f"{a.name}_slots", _place(kernel, slot), names, is_whole(a, kernel))
        for a in kernel.slotted
    ]
    lines = [*_bring(kernel, turn), *with_whole(kernel, over_vectors(kernel, copies), names)]
    if not (kernel.located and kernel.sums):
        return lines
    return enclosed([*located(kernel, turn), *lines])


def _bring(kernel: RowKernel, turn: str) -> list[str]:
    """Start to copy what the row of that turn has one of. No thread still reads the place: all have
    met in the turn before the one in which some may be."""
    names = {**kernel.names, kernel.axes.turn: turn}
    place = f"{turn} % {kernel.places}"
    copies = [copy_text(a, f"{a.name}_places", place, names) for a in kernel.brought]
    return by_first_thread(copies)


def brought(kernel: RowKernel) -> list[str]:
    """What the row has brought, for all threads, which have met since it came."""
    place = f"turn % {kernel.places}"
    return [f"const auto {a.name} = {a.name}_places[{place}];" for a in kernel.brought]


def stow_weights(kernel: RowKernel) -> list[str]:
    """The weights of all rows to shared memory."""
    lines = [f"{in_slot(a, kernel)} = {load_call(a, kernel.names)};" for a in kernel.stowed]
    return over_vectors(kernel, lines)


def gather_rows(kernel: RowKernel) -> list[str]:
    """Start to copy what each row of the group has one of, with the first row."""
    if not kernel.gathered:
        return []
    kind, turns = index_type(kernel.reach), turns_text(kernel)
    copies = [copy_text(a, f"{a.name}_rows", "turn", kernel.names) for a in kernel.gathered]
    head = f"for ({kind} turn = threadIdx.x; turn < {turns}; turn += {kernel.threads})"
    return unrolled(head, copies, 1)


def await_gathered(kernel: RowKernel) -> list[str]:
    """Wait for it, and for the first row with which it comes, before a thread reads what another
    one has copied."""
    if not kernel.gathered:
        return []
    return [f"tf::await_copies<{kernel.slots - 1}>();", "__syncthreads();"]


def in_slot(access: VectorAccess, kernel: RowKernel) -> str:
    """A thread's vector k in the slot of the row, or of the weights."""
    slot = "0" if access in kernel.stowed else "slot"
    return f"{access.name}_slots[{_place(kernel, slot)}]"


def _place(kernel: RowKernel, slot: str) -> str:
    """The number of a thread's vector in the slots of an access."""
    return f"({slot} * {kernel.vectors_per_thread} + k) * {kernel.threads} + threadIdx.x"
