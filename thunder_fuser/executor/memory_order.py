"""Store what a region returns in the memory order that its reader wants.

    [q] = TF0(x)                                 [q] = TF0(x)
      # q = cat([a, b], 3)                         # t = cat([a, b], 3)
    o, ... = flash_attention(q, k, v)      =>      # q = stride_order(t, (3, 1, 2, 0))
                                                 o, ... = flash_attention(q, k, v)

A trace promises no strides for what stays inside it, and two readers copy what lies otherwise:

    flash attention   takes (B, H, T, D) as rows of (B, T, H, D). Its result lies like the query:
                      then transpose(1, 2).reshape(B, T, H * D) of it is a view. Its backward copies
                      the result, and the gradient of it, where they lie otherwise.
    autograd          keeps a gradient that lies row-major, like its parameter.

An order is asked only of what the region stores anyway, and for itself: a view of something else
that exists costs nothing as it lies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import torch
from thunder.core import prims
from thunder.core.proxies import TensorProxy, variableify
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx, from_trace, tracectx
from thunder.executors.sdpaex import sdpea_bwd

from thunder_fuser.executor import attention
from thunder_fuser.executor.claims import prim_name
from thunder_fuser.executor.inplace import view_of
from thunder_fuser.executor.joint import GRADIENTS, is_joint, returned
from thunder_fuser.executor.region import region_of
from thunder_fuser.executor.remat_cut import results
from thunder_fuser.executor.storage import Storages, tensors
from thunder_fuser.executor.torch_views import taken

Order = tuple[int, ...]  # the rank of each dim's stride, the largest outermost

_ROWS_OF_HEADS: Order = (3, 1, 2, 0)  # (B, H, T, D) in memory as (B, T, H, D)
_HEAD_MULTIPLE = 8  # elements; Thunder pads other heads into row-major copies

# The operands that should lie as rows of heads, by the names of sdpa_ex's symbols and of ours.
ATTENTION = {
    # cuDNN's: query, key, value; its backward: the gradient of the result, and what saved the three
    attention.FORWARD: (0, 1, 2),
    attention.BACKWARD: (0, 1, 2, 3),
    # flash attention: query, key, value
    attention.FLASH_FORWARD: (0, 1, 2),
    # its backward: the gradient of the result, and what saved the three
    attention.FLASH_BACKWARD: (0, 1, 2, 3),
    # the memory efficient one lays its result out itself; its backward: the result's gradient
    sdpea_bwd.name: (0,),
}


def choose_memory_orders(trace: TraceCtx, storages: Storages) -> TraceCtx:
    """The trace with a `stride_order` at the end of each region whose result a reader wants so;
    the trace itself where there is none."""
    wanted = _wanted_by_attention(trace) | _wanted_by_autograd(trace)
    result = from_trace(trace)
    with tracectx(result):
        for bsym in trace.bound_symbols:
            orders = {} if region_of(bsym) is None else dict(_orders(bsym, wanted, storages))
            result.bound_symbols.append(_laid_out(bsym, orders) if orders else bsym)
    same = all(a is b for a, b in zip(trace.bound_symbols, result.bound_symbols, strict=True))
    return trace if same else result


def _wanted_by_attention(trace: TraceCtx) -> dict[str, Order]:
    """Operands that nobody reads to whom another order would matter: neither an op of torch, which
    may copy them, nor the caller."""
    wanted: set[str] = set()
    unwanted: set[str] = set()
    for bsym in trace.bound_symbols:
        read = {p.name: p for p in tensors(bsym.flat_proxy_args)}
        places = ATTENTION.get(bsym.sym.name)
        if places is not None:
            operands = [bsym.args[place] for place in places]
            wanted.update(p.name for p in operands if _has_whole_heads(p))
        elif region_of(bsym) is None:
            unwanted |= read.keys()
    return dict.fromkeys(wanted - unwanted, _ROWS_OF_HEADS)


def _has_whole_heads(operand: TensorProxy) -> bool:
    size = operand.shape[-1]
    return operand.ndim == 4 and isinstance(size, int) and size % _HEAD_MULTIPLE == 0


def _wanted_by_autograd(trace: TraceCtx) -> dict[str, Order]:
    """The gradients that are returned. One is written turned at the cost of writing it as it is."""
    found = returned(trace)
    if not is_joint(found):
        return {}
    others = {p.name for what in found if what != GRADIENTS for p in tensors(found[what])}
    gradients = {p.name: _row_major(p.ndim) for p in tensors(found[GRADIENTS])}
    return {name: order for name, order in gradients.items() if name not in others}


def _orders(
    fusion: BoundSymbol, wanted: Mapping[str, Order], storages: Storages
) -> Iterator[tuple[str, Order]]:
    """The results of a fusion that are stored in the order wanted, with that order."""
    makers = {p.name: leaf for leaf in fusion.subsymbols for p in results(leaf)}
    shown = {p.name: _shown(p.name, makers) for p in tensors(fusion.output)}
    times = Counter(root for root, _ in shown.values())
    for name, (root, views) in shown.items():
        if name not in wanted or times[root] > 1 or storages.is_written(name):
            continue
        is_turned = any(prim_name(view) == "TRANSPOSE" for view in views)
        if wanted[name] == _row_major(len(wanted[name])) and not is_turned:
            continue  # lies so already
        if _is_stored(root in makers, views):
            yield name, wanted[name]


def _row_major(rank: int) -> Order:
    return tuple(reversed(range(rank)))


def _shown(name: str, makers: Mapping[str, BoundSymbol]) -> tuple[str, list[BoundSymbol]]:
    """The value that a result may be a view of, and the views that lead from it to the result."""
    views: list[BoundSymbol] = []
    while (leaf := makers.get(name)) is not None and _may_view(leaf):
        views.append(leaf)
        name = leaf.args[0].name
    return name, views[::-1]


def _may_view(leaf: BoundSymbol) -> bool:
    return prim_name(leaf) == "RESHAPE" or view_of(leaf) is not None


def _is_stored(is_computed: bool, views: Sequence[BoundSymbol]) -> bool:
    """True if a region that computes a value, or is given it, stores what `views` show of it. What
    repeats elements stays a view where torch can express it."""
    if any(prim_name(view) == "BROADCAST_IN_DIM" for view in views):
        return not _is_view(views)
    return is_computed


def _is_view(views: Sequence[BoundSymbol]) -> bool:
    """True if torch takes the views of a row-major tensor without a copy."""
    source = views[0].args[0]
    proxies = (source, *(view.output for view in views))
    if not all(isinstance(extent, int) for p in proxies for extent in p.shape):
        return True
    shown = torch.empty(source.shape, device="meta")
    try:
        for view in views:
            shown = taken(shown, view)
    except RuntimeError:  # a reshape that has to copy
        return False
    return True


def _laid_out(fusion: BoundSymbol, orders: Mapping[str, Order]) -> BoundSymbol:
    """The fusion with some of its results stored in an order; what it computes of them reads the
    value as it was."""
    made = {p.name: TensorProxy(like=p) for p in fusion.output if p.name in orders}
    swap = {variableify(p): made[p.name] for p in fusion.output if p.name in made}
    steps = [leaf.from_bsym_swap_proxies(swap) for leaf in fusion.subsymbols]
    for p in fusion.output:
        if p.name in made:
            steps.append(prims.stride_order.bind(made[p.name], orders[p.name], output=p))
    return fusion.from_bsym(subsymbols=tuple(steps))
