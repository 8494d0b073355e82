"""Sum where the terms are made, rather than where they would be read again.

    g = mul(gy, gelu')                    g = mul(gy, gelu');  gb = sum(g, 0)
    gx = matmul(g, w)           =>        gx = matmul(g, w)
    gb = sum(g, 0)

The gradient of a bias stands behind the products of matrices that make the others: a region of its
own, that reads all of g for a row of sums. It moves to the symbol that makes g, if both may share a
region, and nothing else in the run where it stood needs g. Terms that are put together of pieces,
as the gradient of what a rotary embedding reads, stay with the kernel that has a nest for each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx

from thunder_fuser.executor.claims import prim_name
from thunder_fuser.executor.partition import Kind
from thunder_fuser.executor.remat_cut import bytes_of
from thunder_fuser.executor.storage import Storages, leaves, rebuilt, tensors

PIECES = ("CAT", "PAD")  # prims
SHRINKS = 8  # times, at least, that what is read is larger than what is stored for it


def sums_beside_terms(trace: TraceCtx, kind: Kind, storages: Storages) -> TraceCtx:
    """The trace in an order in which such sums follow their terms at once."""
    bsyms = trace.bound_symbols
    makers = {p.name: k for k, bsym in enumerate(bsyms) for p in bsym.flat_proxy_outs}
    moved: dict[int, list[int]] = defaultdict(list)
    gone: set[int] = set()
    for start, end in _runs(bsyms, kind):
        shrinking = {k for k in range(start, end) if shrinks(bsyms[k])}
        read = {
            p.name
            for k in range(start, end)
            if k not in shrinking
            for p in bsyms[k].flat_proxy_args
        }
        for k in sorted(shrinking):
            args = [p.name for p in bsyms[k].flat_proxy_args]
            maker = max((makers.get(name, -1) for name in args), default=-1)
            is_alone = read.isdisjoint(args) and 0 <= maker < start and maker not in gone
            fits = is_alone and kind(bsyms[maker]) == kind(bsyms[k])
            fits = fits and not _is_in_pieces(bsyms, maker, kind)
            if fits and storages.may_precede(bsyms[k], bsyms[maker + 1 : k]):
                moved[maker].append(k)
                gone.add(k)
    left = (k for k in range(len(bsyms)) if k not in gone)
    return rebuilt(trace, [bsyms[k] for first in left for k in (first, *moved[first])])


def _runs(bsyms: Sequence[BoundSymbol], kind: Kind) -> Iterator[tuple[int, int]]:
    """Where symbols that may share a region begin and end to stand side by side."""
    kinds = [kind(bsym) for bsym in bsyms]
    start = 0
    for k in range(1, len(bsyms) + 1):
        if k == len(bsyms) or kinds[k] != kinds[start]:
            if kinds[start] is not None:
                yield start, k
            start = k


def _is_in_pieces(bsyms: Sequence[BoundSymbol], maker: int, kind: Kind) -> bool:
    """True where the symbol at `maker`, or one of its run that it needs, puts pieces together."""
    needed = {p.name for p in bsyms[maker].flat_proxy_outs}
    for k in range(maker, -1, -1):
        if kind(bsyms[k]) != kind(bsyms[maker]):
            return False
        if needed.isdisjoint(p.name for p in bsyms[k].flat_proxy_outs):
            continue
        if any(prim_name(leaf) in PIECES for leaf in leaves([bsyms[k]])):
            return True
        needed |= {p.name for p in bsyms[k].flat_proxy_args}
    return False


def shrinks(bsym: BoundSymbol) -> bool:
    """True for a symbol that makes little of much."""
    read = max((bytes_of(p) for p in bsym.flat_proxy_args), default=0)
    made = tensors(bsym.flat_proxy_outs)
    return bool(made) and SHRINKS * sum(map(bytes_of, made)) <= read
