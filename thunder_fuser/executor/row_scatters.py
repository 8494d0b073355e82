"""Add whole rows where an index says, if it is the same for all elements of a row.

    i: i64[b, k];  t = broadcast_in_dim(i, (b, k, c), (0, 1));  y = scatter_add(a, t, v, 1)
      =>  j = squeeze(slice(t, (0, 0, 0), (b, k, 1)), 2)
          y = index_put(a, (0 .. b of j's shape, j), v, accumulate)

The features of a graph's edges are added like this, and the gradients of picked tokens. Torch adds
the elements by atomics, in no fixed order, and the backward of a pick keeps an index of 8 bytes for
each element. A sum of rows is ours, and needs an index a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import thunder.core.prims as prims
import thunder.torch as ltorch
import torch
from thunder.core.proxies import NumberProxy, TensorProxy
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx, from_trace, tracectx

from thunder_fuser.executor.claims import prim_name
from thunder_fuser.executor.scatters import MAX_PLACES
from thunder_fuser.executor.storage import leaves


def scatters_of_rows(trace: TraceCtx) -> TraceCtx:
    """The trace itself where no index of a sum is the same along a row."""
    bsyms = trace.bound_symbols
    if not any(_scatter_add(bsym) for bsym in bsyms):
        return trace
    makers = {p.name: leaf for leaf in leaves(bsyms) for p in leaf.flat_proxy_outs}
    result = from_trace(trace)
    with tracectx(result):
        for bsym in bsyms:
            scatter = _scatter_add(bsym)
            places = scatter and _places(scatter, makers)
            if scatter is None or places is None:
                result.bound_symbols.append(bsym)
                continue
            before = len(result.bound_symbols)
            result.bound_symbols.append(_sum_of_rows(scatter, places))
            result.bound_symbols[before:] = [
                made.from_bsym(tags=bsym.tags) for made in result.bound_symbols[before:]
            ]
    return result


def _scatter_add(bsym: BoundSymbol) -> BoundSymbol | None:
    """The prim, where it is all that a bound symbol does and adds up many elements."""
    found = list(leaves([bsym]))
    if len(found) != 1 or prim_name(found[0]) != "SCATTER_ADD":
        return None
    (scatter,) = found
    a, index, value, dim = scatter.args
    sizes = (*a.shape, *index.shape, *value.shape)
    if not a.ndim or any(isinstance(n, NumberProxy) for n in sizes) or 0 in sizes:
        return None
    others = [k for k in range(a.ndim) if k != dim]
    is_whole = index.shape == value.shape and all(index.shape[k] == a.shape[k] for k in others)
    return scatter if is_whole and index.shape[dim] > MAX_PLACES else None


def _places(scatter: BoundSymbol, makers: Mapping[str, BoundSymbol]) -> list[int] | None:
    """The dims along which the index differs: that of the scatter, or this and all before it."""
    _, index, _, dim = scatter.args
    strides = _lying(index, makers).stride()
    differing = [k for k, n in enumerate(index.shape) if (strides[k] and n > 1) or k == dim]
    if differing == [dim]:
        return differing
    return list(range(dim + 1)) if dim + 1 < index.ndim and max(differing) == dim else None


def _lying(index: TensorProxy, makers: Mapping[str, BoundSymbol]) -> torch.Tensor:
    """A tensor without data whose strides are 0 along what was broadcast."""
    leaf = makers.get(index.name)
    if leaf is not None and prim_name(leaf) in _VIEWS:
        try:
            return _VIEWS[prim_name(leaf)](_lying(leaf.args[0], makers), *leaf.args[1:])
        except RuntimeError:  # a reshape for which the elements of a broadcast are written out
            pass
    return torch.empty(tuple(index.shape), device="meta")


def _broadcast(t: torch.Tensor, shape: Sequence[int], dims: Sequence[int]) -> torch.Tensor:
    sizes = [1] * len(shape)
    for size, dim in zip(t.shape, dims, strict=True):
        sizes[dim] = size
    return t.view(sizes).expand(tuple(shape))


_VIEWS: dict[str, Callable[..., torch.Tensor]] = {
    "BROADCAST_IN_DIM": _broadcast,
    "CONVERT_ELEMENT_TYPE": lambda t, dtype: t,
    "RESHAPE": lambda t, shape: t.view(tuple(shape)),
    "SQUEEZE": lambda t, dims: t.squeeze(tuple(dims)),
    "TRANSPOSE": lambda t, dims: t.permute(tuple(dims)),
}


def _sum_of_rows(scatter: BoundSymbol, places: Sequence[int]) -> BoundSymbol:
    """The last of the symbols that add rows at an index of the dims `places`."""
    a, index, value, dim = scatter.args
    same = tuple(k for k in range(a.ndim) if k not in places)
    ends = [1 if k in same else n for k, n in enumerate(index.shape)]
    row = prims.squeeze(prims.slice_prim(index, [0] * a.ndim, ends), same)
    if len(places) == 1:
        return prims.index_add.bind(a, row, value, dim, output=scatter.output)
    # A negative place counts from the end in brackets, and is out of range here.
    row = ltorch.where(ltorch.lt(row, 0), a.shape[dim], row)
    before = [_counted(k, row) for k in range(dim)]
    return prims.index_put.bind(a, (*before, row), value, True, output=scatter.output)


def _counted(dim: int, row: TensorProxy) -> TensorProxy:
    """Of each element of `row` where it lies along `dim`."""
    counter = prims.iota(row.shape[dim], start=0, step=1, device=row.device, dtype=row.dtype)
    return prims.broadcast_in_dim(counter, row.shape, (dim,))
