"""Read what a pad of no width pads, where nobody can tell its copy from it.

    p = pad(x, 0.0, ((0, 0, 0), (0, 0, 0)));  y = mul(p, 2.0)    =>    y = mul(x, 2.0)

Torch's result is a tensor of its own, so a region that hands one over would store it. Models pad
images to multiples of their patches, which they mostly are, and Thunder pads the operands of each
convolution: there the copy is neither written, nor returned, nor is what it copies written.
"""

from __future__ import annotations

from typing import Any

from thunder.core.proxies import TensorProxy, variableify
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx, from_trace

from thunder_fuser.executor.claims import prim_name
from thunder_fuser.executor.storage import Storages, leaves, tensors


def drop_idle_pads(trace: TraceCtx) -> TraceCtx:
    """The trace itself where there is no such pad."""
    bsyms = trace.bound_symbols
    found = [(bsym.output, padded) for bsym in bsyms if (padded := _padded(bsym)) is not None]
    if not found:
        return trace
    storages = Storages(bsyms)
    returned = {storages.of(p.name) for p in tensors(bsyms[-1].flat_proxy_args)}
    renames: dict[Any, TensorProxy] = {}
    for copy, padded in found:
        is_written = storages.is_written(padded.name) or storages.is_written(copy.name)
        if not is_written and storages.of(copy.name) not in returned:
            renames[variableify(copy)] = renames.get(variableify(padded), padded)
    if not renames:
        return trace
    dropped, result = {p.proxy.name for p in renames}, from_trace(trace)
    result.bound_symbols = [
        bsym.from_bsym_swap_proxies(renames)
        for bsym in bsyms
        if dropped.isdisjoint(p.name for p in bsym.flat_proxy_outs)
    ]
    return result


def _padded(bsym: BoundSymbol) -> TensorProxy | None:
    """What a symbol that is nothing but a pad of no width pads."""
    match list(leaves([bsym])):
        case [leaf] if prim_name(leaf) == "PAD" and isinstance(bsym.output, TensorProxy):
            source, _, widths = leaf.args
            is_idle = all(n == 0 for axis in widths for n in axis)
            return source if is_idle and isinstance(source, TensorProxy) else None
    return None
