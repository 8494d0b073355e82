"""Read what a pad of no width pads, where nobody can tell its copy from it.

    p = pad(x, 0.0, ((0, 0, 0), (0, 0, 0)));  y = mul(p, 2.0)    =>    y = mul(x, 2.0)

Torch's result is a tensor of its own, so a region that hands one over would store it. Models pad
images to multiples of their patches, which they mostly are, and Thunder pads the operands of each
convolution: there the copy is neither written, nor returned, nor is what it copies written.
"""

from __future__ import annotations

from typing import Any

from thunder.core.proxies import Proxy, TensorProxy, variableify
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx, from_trace

from thunder_fuser.executor.claims import prim_name
from thunder_fuser.executor.storage import Storages, leaves, tensors


def drop_idle_pads(trace: TraceCtx) -> TraceCtx:
    """The trace itself where there is no such pad."""
    padded = {bsym: p for bsym in trace.bound_symbols if (p := _padded(bsym)) is not None}
    if not padded:
        return trace
    storages = Storages(trace.bound_symbols)
    returned = {storages.of(p.name) for p in tensors(trace.bound_symbols[-1].flat_proxy_args)}
    result, body = from_trace(trace), list[BoundSymbol]()
    renames: dict[Any, Proxy] = {}
    for bsym in trace.bound_symbols:
        if bsym in padded:
            source, copy = padded[bsym], bsym.output.name
            is_written = storages.is_written(source.name) or storages.is_written(copy)
            if not is_written and storages.of(copy) not in returned:
                source_now = renames.get(variableify(source), source)
                renames[variableify(bsym.output)] = source_now
                continue
        body.append(bsym.from_bsym_swap_proxies(renames) if renames else bsym)
    result.bound_symbols = body
    return result


def _padded(bsym: BoundSymbol) -> TensorProxy | None:
    """What a symbol that is nothing but a pad of no width pads."""
    match list(leaves([bsym])):
        case [leaf] if prim_name(leaf) == "PAD" and isinstance(bsym.output, TensorProxy):
            source, _, widths = leaf.args
            is_idle = all(n == 0 for axis in widths for n in axis)
            return source if is_idle and isinstance(source, TensorProxy) else None
    return None
