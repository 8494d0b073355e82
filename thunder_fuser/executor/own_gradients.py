"""Give each input a gradient tensor of its own.

    return {"output": (t9, t9), ...}    =>    t10 = clone(t9)
                                              return {"output": (t9, t10), ...}

Autograd keeps a gradient as `.grad` only if nobody else holds the tensor, and copies it otherwise:
a read, a write and a launch where the kernel that makes the gradient needs one more write. What no
kernel of ours makes stays shared: its copy would be torch's either way.
"""

from __future__ import annotations

from typing import Any

import thunder.core.prims as prims
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import BoundSymbol, BoundSymbolTag
from thunder.core.trace import TraceCtx, from_trace, tracectx

from thunder_fuser.executor.claims import why_not
from thunder_fuser.executor.joint import GRADIENTS, is_joint, returned


def own_gradients(trace: TraceCtx) -> TraceCtx:
    """The trace itself where no gradient is shared, or it has none."""
    *body, end = trace.bound_symbols
    found = returned(trace)
    if not is_joint(found):
        return trace
    made = {p.name: bsym for bsym in body for p in bsym.flat_proxy_outs}
    result, seen = from_trace(trace), set[str]()
    gradients: list[Any] = []
    with tracectx(result):
        for gradient in found[GRADIENTS]:
            name = getattr(gradient, "name", "")
            is_shared = name in seen and name in made and why_not(made[name]) is None
            gradients.append(_copy(gradient, body) if is_shared else gradient)
            seen.add(name)
    if len(body) + 1 == len(trace.bound_symbols):
        return trace
    end = end.from_bsym(args=({**found, GRADIENTS: tuple(gradients)},))
    result.bound_symbols = [*body, end]
    return result


def _copy(gradient: TensorProxy, body: list[BoundSymbol]) -> TensorProxy:
    made: TensorProxy = TensorProxy(like=gradient)
    body.append(prims.clone.bind(gradient, output=made).from_bsym(tags={BoundSymbolTag.BACKWARD}))
    return made
