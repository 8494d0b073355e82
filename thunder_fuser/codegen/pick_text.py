"""The pick kernel's body as C++ text: a call of one device function, which is told what is added at
a place, and what is done with sums."""

from __future__ import annotations

from thunder_fuser.codegen.blocks import function, per_lane
from thunder_fuser.codegen.statements import number, scope_lines
from thunder_fuser.codegen.types import COMPUTE_TYPES, CUDA_TYPES, index_type
from thunder_fuser.codegen.values import round_text
from thunder_fuser.kernel.picks import COLUMN, VALUE, PickKernel


def pick_lines(kernel: PickKernel) -> list[str]:
    """The statements of the entry point."""
    axes, names, kind = kernel.axes, kernel.axes.names, index_type(kernel.reach)
    places, sums = axes.places, f"{kernel.name}_row"
    computed, stored = COMPUTE_TYPES[kernel.dtype], CUDA_TYPES[kernel.dtype]
    at = [f"const {kind} row", f"const {kind} vector"]
    held = [f"int (&{COLUMN})[{places.lanes}]", f"{computed} (&{VALUE})[{places.lanes}]"]
    rounded = []
    if kernel.rounded is not None:
        one = f"{sums}[lane]"
        rounded = per_lane(f"{one} = {round_text(one, kernel.rounded)};", axes.lanes)
    final = [*rounded, *scope_lines(kernel.final, names, axes.lanes)]
    shape = (kernel.threads, kernel.rows, kernel.turns, places.lanes, axes.lanes)
    slots = "true" if kernel.has_slots else "false"
    constants = ", ".join((computed, stored, *map(str, shape), slots))
    sizes = ", ".join(map(number, (axes.row.size, places.vector.size, axes.columns)))
    return [
        *function("load", [*at, *held], scope_lines(kernel.load, names, places.lanes)),
        *function("finish", [*at, f"{computed} (&{sums})[{axes.lanes}]"], final),
        f"tf::sum_picks<{constants}>({sizes}, load, finish);",
    ]
