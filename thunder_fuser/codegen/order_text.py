"""The order kernel's body as C++ text: one call of a device function."""

from __future__ import annotations

from thunder_fuser.codegen.index_text import index_lines
from thunder_fuser.codegen.statements import number
from thunder_fuser.kernel.integers import INDEX
from thunder_fuser.kernel.ordering import OrderKernel

_RESULTS = ("group_order", "group_keys", "group_ends")


def order_lines(kernel: OrderKernel) -> list[str]:
    """The statements of the entry point."""
    results = ", ".join(kernel.results.get(name, "nullptr") for name in _RESULTS)
    sizes = f"{number(kernel.terms)}, {number(kernel.count)}"
    call = f"tf::put_in_order<{kernel.own}, {kernel.threads}>"
    return [*index_lines(kernel.index), f"{call}({INDEX}, {sizes}, {results});"]
