"""Write a result over a product of matrices that nothing reads again.

    t = linear(x, w); y = F0(t)       y = 30 * tanh(t / 30), in the memory of t

Gemma-2 caps its logits like this: 2 GB for 4096 tokens, which would be in memory twice. What the
backward reads stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import Any

from thunder.core.prims import OpTags
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import BoundSymbol, has_tags
from thunder.core.trace import TraceCtx

from thunder_fuser.executor.claims import ROW_OF_PRIM, prim_name
from thunder_fuser.executor.region import region_of
from thunder_fuser.executor.storage import Storages, leaves, tensors
from thunder_fuser.ops import Family

# Smaller ones make no peak of a model's memory, and writing in place has its price: kernels are not
# timed against others, and every call asks whether arguments overlap.
LEAST_BYTES = 256 << 20


def donate(trace: TraceCtx) -> None:
    """Let the regions of the finished `trace` that can write over an argument do so: over one that
    they alone read, each element of the result being made of what lies at its own place."""
    bsyms = trace.bound_symbols
    users = Counter(name for b in bsyms for name in {p.name for p in b.flat_proxy_args})
    products = {name for b in bsyms if not b.sym.is_fusion for name in _products(b)}
    for bsym in bsyms:
        region = region_of(bsym)
        if region is None or len(bsym.flat_proxy_outs) != 1 or not _is_pointwise(bsym.subsymbols):
            continue
        (result,) = bsym.flat_proxy_outs
        dead = (p for p in tensors(bsym.flat_proxy_args) if users[p.name] == 1)
        donors = [p for p in dead if p.name in products and _is_alike(p, result)]
        if donors:
            region.write_over(donors[0], result)


def _products(bsym: BoundSymbol) -> set[str]:
    """The results of a bound symbol that are products of matrices, or views of one, in memory of
    their own."""
    products = [leaf for leaf in leaves([bsym]) if has_tags(leaf, {OpTags.MATMUL_OP})]
    if not products:
        return set()
    storages = Storages([bsym])
    made = {storages.of(p.name) for leaf in products for p in leaf.flat_proxy_outs}
    made -= {storages.of(p.name) for p in bsym.flat_proxy_args}
    return {p.name for p in bsym.flat_proxy_outs if storages.of(p.name) in made}


def _is_pointwise(steps: Sequence[BoundSymbol]) -> bool:
    """True where each element of the result is made of the elements at its own place, and of
    smaller tensors."""
    return all(_reads_its_own_place(leaf) for leaf in leaves(steps))


def _reads_its_own_place(leaf: BoundSymbol) -> bool:
    row = ROW_OF_PRIM.get(prim_name(leaf))
    if row is None:
        return False
    if row.family is Family.POINTWISE:
        return True
    size = max(map(_size, tensors(leaf.flat_proxy_outs)), default=0)
    return all(_size(p) < size for p in tensors(leaf.flat_proxy_args))


def _is_alike(donor: Any, result: Any) -> bool:
    return (
        isinstance(result, TensorProxy)
        and donor.shape == result.shape
        and donor.dtype == result.dtype
        and donor.device == result.device
        and _size(donor) * donor.dtype.bytes >= LEAST_BYTES
    )


def _size(tensor: Any) -> int:
    """Elements, 0 where an extent is not known."""
    return prod(n if isinstance(n, int) else 0 for n in tensor.shape)
