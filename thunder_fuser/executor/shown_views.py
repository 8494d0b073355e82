"""Leave to torch a view that Thunder computes, where somebody may tell it from a copy.

    t1 = ltorch.diagonal(x)  # iota, take    =>    t1 = torch.diagonal(x)
    t2 = ltorch.real(c)                      =>    t2 = torch.real(c)

What is written into such a copy would not reach the tensor. Of an intermediate that is neither
written nor returned it stays in its region.
"""

from __future__ import annotations

import thunder.core.dtypes as dtypes
import thunder.torch as ltorch
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx
from thunder.executors import torchex

from thunder_fuser.executor.storage import Storages, rebuilt, sources_of_views, tensors

_TORCHS = {
    ltorch.diagonal.id: torchex.diagonal,
    ltorch.imag.id: torchex.imag,
    ltorch.real.id: torchex.real,
}


def show_views(trace: TraceCtx) -> TraceCtx:
    """The trace itself where there is no such view."""
    shown = [_as_torchs(bsym) for bsym in trace.bound_symbols]
    if all(view is bsym for bsym, view in zip(trace.bound_symbols, shown, strict=True)):
        return trace
    storages = Storages(shown)
    returned = sources_of_views(shown, [p.name for p in tensors(shown[-1].flat_proxy_args)])
    chosen = (
        view if view is bsym or _is_seen(view.output.name, storages, returned) else bsym
        for bsym, view in zip(trace.bound_symbols, shown, strict=True)
    )
    return rebuilt(trace, chosen)


def _as_torchs(bsym: BoundSymbol) -> BoundSymbol:
    """A view as an op of which all that is known is that its result may be one."""
    is_part = bsym.sym.id in (ltorch.imag.id, ltorch.real.id)
    if bsym.sym.id not in _TORCHS or (is_part and not dtypes.is_complex_dtype(bsym.args[0].dtype)):
        return bsym
    return bsym.from_bsym(sym=_TORCHS[bsym.sym.id], subsymbols=())


def _is_seen(name: str, storages: Storages, returned: set[str]) -> bool:
    """True if the memory of a view is written, or what is returned may show it."""
    return storages.is_written(name) or name in returned
