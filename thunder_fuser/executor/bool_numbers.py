"""Compute what bools and whole numbers give in 64 bits, as torch does.

    i: i8[3] = convert(m: b8[3]);  n: i8[3] = mul(i, 300)    =>    the same in i64

Thunder's type for a bool beside a Python int is a weak int8, in which 300 is 44. Left to torch the
op gives int64, whatever the trace says. A tensor of rank 0 is weak as well: with one of int8 that
the type may come from, the trace stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import thunder.core.dtypes as dtypes
import thunder.core.prims as prims
import torch
from thunder.core.proxies import TensorProxy, Variable, variableify
from thunder.core.pytree import tree_map
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx, from_trace, tracectx

from thunder_fuser.executor.claims import WRITE_PRIM, prim_name
from thunder_fuser.executor.storage import leaves, tensors

NARROW, WIDE = dtypes.int8_, dtypes.int64


def widen_bool_numbers(trace: TraceCtx) -> TraceCtx:
    """The trace itself where no bool meets a number."""
    if not any(map(_is_promotion, leaves(trace.bound_symbols))):
        return trace
    result = from_trace(trace)
    with tracectx(result):
        body = [_as_cast(bsym) if _is_cast(bsym) else bsym for bsym in trace.bound_symbols]
        parts = list(leaves(body))
        narrow = _narrow(parts)
        read = tensors(p for part in parts for p in part.flat_proxy_args)
        if any(_is_int8(p) and p.ndim == 0 and variableify(p) not in narrow for p in read):
            return trace
        wide = {name: TensorProxy(like=p, dtype=WIDE) for name, p in narrow.items()}
        result.bound_symbols = [_retyped(bsym).from_bsym_swap_proxies(wide) for bsym in body]
    return result


def _is_cast(bsym: BoundSymbol) -> bool:
    """True for a conversion to int8, of what Thunder took for int8 and so did not convert."""
    is_copy = [prim_name(part) for part in leaves([bsym])] == ["SHALLOW_COPY"]
    return is_copy and any(value is torch.int8 for value in bsym.flat_args)


def _as_cast(bsym: BoundSymbol) -> BoundSymbol:
    cast = prims.convert_element_type.bind(bsym.args[0], dtypes.int8, output=bsym.output)
    return cast.from_bsym(tags=bsym.tags)


def _narrow(parts: Sequence[BoundSymbol]) -> dict[Variable, TensorProxy]:
    """The tensors that have their type from a bool beside a number. What is written has that of
    its target."""
    found: dict[Variable, TensorProxy] = {}
    for part in parts:
        is_given = prim_name(part) == "CONVERT_ELEMENT_TYPE"
        typed = part.args[1:2] if prim_name(part) == WRITE_PRIM else part.flat_proxy_args
        read = {variableify(p) for p in tensors(typed)}
        if _is_promotion(part) or not (is_given or found.keys().isdisjoint(read)):
            outs = tensors(part.flat_proxy_outs)
            found.update((variableify(p), p) for p in outs if _is_int8(p))
    return found


def _is_promotion(part: BoundSymbol) -> bool:
    """True where a bool becomes what Thunder takes for its type beside a number."""
    return prim_name(part) == "CONVERT_ELEMENT_TYPE" and part.args[1] is NARROW


def _is_int8(proxy: TensorProxy) -> bool:
    return bool(dtypes.to_strong_dtype(proxy.dtype) is dtypes.int8)


def _retyped(bsym: BoundSymbol) -> BoundSymbol:
    """With the type as an argument widened, in all its parts."""

    def retype(value: Any) -> Any:
        return WIDE if value is NARROW else value

    return bsym.from_bsym(
        args=tree_map(retype, bsym.args),
        kwargs=tree_map(retype, bsym.kwargs),
        subsymbols=[_retyped(part) for part in bsym.subsymbols],
    )
