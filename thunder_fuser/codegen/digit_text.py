"""The body of a stage of an order as C++ text: one call of a device function."""

from __future__ import annotations

from thunder_fuser.codegen.index_text import index_lines
from thunder_fuser.codegen.statements import number
from thunder_fuser.kernel.digit_stages import DigitKernel


def digit_lines(kernel: DigitKernel) -> list[str]:
    """The statements of the entry point."""
    constants = ", ".join(map(str, kernel.constants))
    arguments = ", ".join(a if isinstance(a, str) else number(a) for a in kernel.arguments)
    index = [] if kernel.index is None else index_lines(kernel.index)
    return [*index, f"tf::{kernel.name}<{constants}>({arguments});"]
