"""Numbers that a region computes: sizes and arithmetic on them, as symbolic traces hold.

    (i0, i1) = shape(x); f2 = convert(n, float); t3 = mul(x, f2)

A region returns tensors only. What others need of its numbers is computed once more behind it, by
Python, from the tensors and numbers that the region reads or returns.
"""

from __future__ import annotations

from collections.abc import Sequence

from thunder.core.proxies import NumberProxy, Proxy, TensorProxy
from thunder.core.symbol import BoundSymbol

from thunder_fuser.executor.claims import is_host_number
from thunder_fuser.executor.liveness import Boundary, live
from thunder_fuser.executor.storage import leaves


def split_numbers(
    bsyms: Sequence[BoundSymbol], boundary: Boundary
) -> tuple[Boundary, list[BoundSymbol]]:
    """The boundary with tensor outputs only, and the symbols that compute its number outputs."""
    numbers = [p for p in boundary.outputs if isinstance(p, NumberProxy)]
    if not numbers:
        return boundary, []
    trailing, _ = live([leaf for leaf in leaves(bsyms) if is_host_number(leaf)], numbers)
    entered = {p.name for p in boundary.inputs}
    outputs: dict[str, Proxy] = {
        p.name: p for p in boundary.outputs if not isinstance(p, NumberProxy)
    }
    for leaf in trailing:
        for p in leaf.flat_proxy_args:
            if isinstance(p, TensorProxy) and p.name not in entered:
                outputs.setdefault(p.name, p)
    return Boundary(boundary.inputs, tuple(outputs.values())), trailing
