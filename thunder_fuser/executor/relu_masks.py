"""Read in the backward what relu returned, instead of a mask that the forward keeps for it.

    m = le(a, 0); y = where(m, 0, a); ga = where(m, 0, gy)
    =>
    m = le(a, 0); y = where(m, 0, a); n = le(y, 0); ga = where(n, 0, gy)

y is above zero exactly where a is, and a NaN where that is one. The same holds of where(gt(a, 0),
a, 0), which is 0 where a is a NaN. Where y is in memory anyway, returned or read by what no region
holds, the mask is a byte per element that need not be written, and kept until the backward.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import thunder.core.dtypes as dtypes
import thunder.core.prims as prims
from thunder.core.proxies import Proxy, TensorProxy, variableify
from thunder.core.symbol import BoundSymbol, BoundSymbolTag
from thunder.core.trace import TraceCtx, from_trace, tracectx

from thunder_fuser.executor.claims import is_backward, prim_name, why_not
from thunder_fuser.executor.storage import Storages, leaves

_COMPARE = {"GT": prims.gt, "LE": prims.le}  # a > 0 keeps a, a <= 0 does not


def drop_relu_masks(trace: TraceCtx) -> TraceCtx:
    """The trace itself where the backward reads no mask of a relu whose result is in memory."""
    bsyms = trace.bound_symbols
    found = list(_relus(bsyms)) if any(map(is_backward, bsyms)) else []
    if not found:
        return trace
    stored, storages = _in_memory(bsyms), Storages(bsyms)
    chosen = {
        variableify(mask): (compare, result)
        for mask, compare, result in found
        if result.name in stored and mask.name not in stored
        if not storages.is_written(result.name) and not storages.is_written(mask.name)
    }
    return _with_signs(trace, chosen) if chosen else trace


def _with_signs(trace: TraceCtx, chosen: dict[Any, tuple[Any, TensorProxy]]) -> TraceCtx:
    """The trace whose backward compares what relu returned, before the first reader of a mask."""
    result, body = from_trace(trace), list[BoundSymbol]()
    renames: dict[Any, Proxy] = {}
    with tracectx(result):
        for bsym in trace.bound_symbols:
            read = {variableify(p) for p in bsym.flat_proxy_args} if is_backward(bsym) else set()
            for mask in [m for m in chosen if m in read and m not in renames]:
                compare, returned = chosen[mask]
                renames[mask] = TensorProxy(like=returned, dtype=dtypes.bool8)
                sign = compare.bind(returned, 0.0, output=renames[mask])
                body.append(sign.from_bsym(tags={BoundSymbolTag.BACKWARD}))
            is_reader = not read.isdisjoint(renames)
            body.append(bsym.from_bsym_swap_proxies(renames) if is_reader else bsym)
    result.bound_symbols = body
    return result


def _relus(bsyms: Sequence[BoundSymbol]) -> Iterator[tuple[TensorProxy, Any, TensorProxy]]:
    """Each mask of the forward with the comparison that makes it and the relu beside it."""
    compared: dict[str, tuple[str, str]] = {}
    for leaf in leaves(bsym for bsym in bsyms if not is_backward(bsym)):
        name = prim_name(leaf)
        if name in _COMPARE and isinstance(leaf.args[0], TensorProxy) and _is_zero(leaf.args[1]):
            compared[leaf.output.name] = name, leaf.args[0].name
        elif name == "WHERE" and isinstance(leaf.args[0], TensorProxy):
            mask, *cases = leaf.args
            how, of = compared.get(mask.name, ("GT", ""))
            kept, other = cases if how == "GT" else reversed(cases)
            if getattr(kept, "name", None) == of and _is_zero(other):
                yield mask, _COMPARE[how], leaf.output


def _in_memory(bsyms: Sequence[BoundSymbol]) -> set[str]:
    """The names that are returned, or read by what is no part of a region."""
    outside = (bsym for bsym in bsyms if why_not(bsym) is not None)
    return {p.name for bsym in outside for p in bsym.flat_proxy_args}


def _is_zero(operand: Any) -> bool:
    return isinstance(operand, (int, float)) and not isinstance(operand, bool) and operand == 0
