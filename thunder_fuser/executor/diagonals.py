"""Leave a diagonal to torch, which gives a view, where somebody may tell it from a copy.

    t1 = ltorch.diagonal(x)  # iota, take    =>    t1 = torch.diagonal(x)

Thunder composes it of index arithmetic and a gather, so what is written into a diagonal would not
reach the tensor. Of an intermediate that is neither written nor returned it stays in its region.
Its gradient would be a sum by an index: here it is a selection.
"""

from __future__ import annotations

from typing import Any

import thunder.torch as ltorch
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx, from_trace
from thunder.core.transforms import get_grad, put_grad
from thunder.executors import torchex

from thunder_fuser.executor.missing_gradients import register
from thunder_fuser.executor.storage import Storages, tensors

SYMBOL = ltorch.diagonal


def show_diagonals(trace: TraceCtx) -> TraceCtx:
    """The trace itself where there is no such diagonal."""
    if not any(bsym.sym.id == SYMBOL.id for bsym in trace.bound_symbols):
        return trace
    shown = [_as_torchs(bsym) for bsym in trace.bound_symbols]
    storages = Storages(shown)
    returned = {storages.of(p.name) for p in tensors(shown[-1].flat_proxy_args)}
    result = from_trace(trace)
    result.bound_symbols = [
        view if view is bsym or _is_seen(view.output.name, storages, returned) else bsym
        for bsym, view in zip(trace.bound_symbols, shown, strict=True)
    ]
    return result


def _as_torchs(bsym: BoundSymbol) -> BoundSymbol:
    """A diagonal as an op of which all that is known is that its result may be a view."""
    if bsym.sym.id != SYMBOL.id:
        return bsym
    return bsym.from_bsym(sym=torchex.diagonal, subsymbols=())


def _is_seen(name: str, storages: Storages, returned: set[str]) -> bool:
    """True if the memory of a tensor is written, the caller's, or returned."""
    return storages.is_written(name) or storages.of(name) in returned


def _diagonal(a: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The gradient lies where the diagonal does, among zeros."""
    result = SYMBOL(a, offset, dim1, dim2)
    put_grad(a, _placed(get_grad(result), a, offset, dim1, dim2))
    return result


def _placed(g: Any, a: Any, offset: int, dim1: int, dim2: int) -> Any:
    rows, columns = a.shape[dim1], a.shape[dim2]
    length = min(rows + min(offset, 0), columns - max(offset, 0))
    if length <= 0:
        return ltorch.zeros_like(a)
    before = max(-offset, 0)  # rows without an element of the diagonal
    by_row = ltorch.unsqueeze(ltorch.pad(g, (before, rows - before - length)), -1)
    row = ltorch.unsqueeze(ltorch.arange(rows, device=a.device), -1)
    column = ltorch.arange(columns, device=a.device)
    plane = ltorch.where(ltorch.eq(ltorch.add(row, offset), column), by_row, 0)
    return ltorch.movedim(plane, (-2, -1), (dim1, dim2))


def register_diagonal() -> None:
    """Register the gradient, if Thunder has none of its own."""
    register({SYMBOL.id: _diagonal})
