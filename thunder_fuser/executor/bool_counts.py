"""Count the bools that a sum adds up, whatever type the trace gives the sum.

    m: b8[3, 2];  n: b8[2] = sum(m, 0)     =>     i: i64[3, 2] = convert(m);  n: i64[2] = sum(i, 0)

The gradient of amax and amin divides by how many elements are the extremum. Thunder's prim says
that a sum has the type of its terms, and torch, which the rule was written for, returns int64.
What only changes the shape of a count has its type.
"""

from __future__ import annotations

from typing import Any

import thunder.core.dtypes as dtypes
import thunder.core.prims as prims
from thunder.core.prims import OpTags
from thunder.core.proxies import TensorProxy, variableify
from thunder.core.symbol import BoundSymbol, has_tags
from thunder.core.trace import TraceCtx, from_trace, tracectx

from thunder_fuser.executor.claims import ALIAS_PRIMS, prim_name
from thunder_fuser.executor.storage import leaves, tensors


def count_bools(trace: TraceCtx) -> TraceCtx:
    """The trace itself where no sum of bools is said to be one."""
    if not any(map(_is_bool_sum, trace.bound_symbols)):
        return trace
    result, body = from_trace(trace), list[BoundSymbol]()
    counts: dict[Any, TensorProxy] = {}
    with tracectx(result):
        for bsym in trace.bound_symbols:
            if _is_bool_sum(bsym):
                terms = TensorProxy(like=bsym.args[0], dtype=dtypes.int64)
                convert = prims.convert_element_type.bind(bsym.args[0], dtypes.int64, output=terms)
                body.append(convert.from_bsym(tags=bsym.tags))
                bsym = bsym.from_bsym(args=(terms, *bsym.args[1:]))
                _count(bsym, counts)
            for leaf in leaves([bsym]):
                if _is_view_of(leaf, counts):
                    _count(leaf, counts)
            body.append(bsym.from_bsym_swap_proxies(counts) if counts else bsym)
    result.bound_symbols = body
    return result


def _is_bool_sum(bsym: BoundSymbol) -> bool:
    return prim_name(bsym) == "SUM" and all(
        p.dtype is dtypes.bool8 for p in (bsym.args[0], *bsym.flat_proxy_outs)
    )


def _is_view_of(bsym: BoundSymbol, counts: dict[Any, TensorProxy]) -> bool:
    """True for what gives a count another shape or another name."""
    read = tensors(bsym.flat_proxy_args)
    keeps = has_tags(bsym, {OpTags.SHAPE_OP}) or prim_name(bsym) in ALIAS_PRIMS
    return keeps and len(read) == 1 and variableify(read[0]) in counts


def _count(bsym: BoundSymbol, counts: dict[Any, TensorProxy]) -> None:
    for out in bsym.flat_proxy_outs:
        counts[variableify(out)] = TensorProxy(like=out, dtype=dtypes.int64)
