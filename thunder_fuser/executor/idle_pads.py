"""Read what a pad of no width pads, or a repetition shows, where nobody can tell its copy from it.

    p = pad(x, 0.0, ((0, 0, 0), (0, 0, 0)));  y = mul(p, 2.0)    =>    y = mul(x, 2.0)

Torch's result is a tensor of its own, so a region that hands one over would store it. Models pad
images to multiples of their patches, which they mostly are, and Thunder pads the operands of each
convolution: there the copy is neither written, nor returned, nor is what it copies written. A head
of keys that is repeated for many of queries is copied by torch, but read through strides of 0 here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thunder.core.proxies import TensorProxy, variableify
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx

from thunder_fuser.executor.claims import prim_name
from thunder_fuser.executor.storage import Storages, leaves, rebuilt, tensors


def drop_idle_pads(trace: TraceCtx) -> TraceCtx:
    """The trace itself where there is no such pad."""
    bsyms = trace.bound_symbols
    found = [(b.output, p) for b in bsyms if (p := _padded(b)) is not None] + _repeated(bsyms)
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
    dropped = {p.proxy.name for p in renames}
    kept = (b for b in bsyms if dropped.isdisjoint(p.name for p in b.flat_proxy_outs))
    return rebuilt(trace, (bsym.from_bsym_swap_proxies(renames) for bsym in kept))


def _repeated(bsyms: Sequence[BoundSymbol]) -> list[tuple[TensorProxy, TensorProxy]]:
    """Clones of what an expanded tensor was reshaped to, each with what it is a clone of."""
    if not any(_is_clone(bsym) for bsym in bsyms):
        return []
    made = {p.name: leaf for leaf in leaves(bsyms) for p in tensors(leaf.flat_proxy_outs)}

    def is_made_by(tensor: TensorProxy, prim: str) -> bool:
        return tensor.name in made and prim_name(made[tensor.name]) == prim

    return [
        (bsym.output, source)
        for bsym in filter(_is_clone, bsyms)
        if is_made_by(source := tensors(bsym.flat_proxy_args)[0], "RESHAPE")
        and is_made_by(made[source.name].args[0], "BROADCAST_IN_DIM")
    ]


def _is_clone(bsym: BoundSymbol) -> bool:
    return [prim_name(leaf) for leaf in leaves([bsym])] == ["CLONE"]


def _padded(bsym: BoundSymbol) -> TensorProxy | None:
    """What a symbol that is nothing but a pad of no width pads."""
    match list(leaves([bsym])):
        case [leaf] if prim_name(leaf) == "PAD" and isinstance(bsym.output, TensorProxy):
            source, _, widths = leaf.args
            is_idle = all(n == 0 for axis in widths for n in axis)
            return source if is_idle and isinstance(source, TensorProxy) else None
    return None
