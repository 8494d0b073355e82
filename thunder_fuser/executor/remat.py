"""Recompute in a later fusion what is cheaper to recompute than to hand over.

    [a, z] = F0(x)            [a]  = F0(x)
    [y]    = F1(a, z)    =>   [y]  = F1(a, x)      # z is computed again from x

What is handed over is a minimal cut by bytes (`remat_cut`) for each producer and consumer. Long
reductions, random numbers that are no function of a seed and an offset, products of matrices and
in-place writes are computed once, as is what reads a storage that is written between the two. But
short rows that the consumer reduces too are there, and their sums need no memory.

Producers are visited last to first: what a consumer then reads of a producer's arguments may be
recomputed from an earlier one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from typing import Any

from thunder.core.prims import OpTags
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import BoundSymbol, has_tags
from thunder.core.trace import TraceCtx

from thunder_fuser.executor.claims import SHAPE_PRIM, prim_name
from thunder_fuser.executor.cse import RANDOM_PRIMS
from thunder_fuser.executor.extrema import are_floats_compared
from thunder_fuser.executor.inplace import CERTAIN_VIEWS, write_results
from thunder_fuser.executor.liveness import boundaries, live
from thunder_fuser.executor.reductions import is_reduction, is_repeatable, short_row
from thunder_fuser.executor.region import region_of
from thunder_fuser.executor.remat_cut import Cut, bytes_of, find_cut, results
from thunder_fuser.executor.scans import is_scan
from thunder_fuser.executor.scatters import is_sum
from thunder_fuser.executor.storage import Storages, is_write, leaves, rebuilt, tensors

_NEVER = float(1 << 62)  # bytes: more than any cut costs
_FUNCTIONS_OF_A_SEED = frozenset({"UNIFORM_PHILOX"})
_COMPUTED_ONCE = {OpTags.RANDOM_OP, OpTags.MATMUL_OP, OpTags.REDUCTION_OP}


def rematerialize(trace: TraceCtx, storages: Storages) -> TraceCtx:
    """The trace with cheap values recomputed in the fusions that need them."""
    regions = _Regions(trace.bound_symbols, storages)
    for producer in reversed(regions.positions):
        for consumer in regions.consumers(producer):
            regions.hand_over(producer, consumer)
        regions.drop_unread(producer)
    return rebuilt(trace, regions.bsyms)


class _Regions:
    """The bound symbols of the trace as its fusions change, and who reads what."""

    def __init__(self, bsyms: Sequence[BoundSymbol], storages: Storages) -> None:
        self.bsyms = list(bsyms)
        self._storages = storages
        self._writes = [storages.writes(bsym) for bsym in bsyms]
        self._rank = _ranks(bsyms)
        self._device = {
            i: region.device for i, b in enumerate(bsyms) if (region := region_of(b)) is not None
        }
        self._readers: defaultdict[str, set[int]] = defaultdict(set)
        for position, bsym in enumerate(bsyms):
            self._enter(position, bsym)

    @property
    def positions(self) -> list[int]:
        """The positions of our own fusions, in order."""
        return list(self._device)

    def consumers(self, producer: int) -> list[int]:
        """The positions of the fusions of the same device that read the producer's results."""
        names = (p.name for leaf in self.bsyms[producer].subsymbols for p in results(leaf))
        readers = {i for name in names for i in self._readers.get(name, ()) if i != producer}
        device = self._device[producer]
        return sorted(i for i in readers if self._device.get(i) == device)

    def hand_over(self, producer: int, consumer: int) -> None:
        """Let the consumer read the cheapest values, and compute what it needs from them."""
        cut = self._cut(producer, consumer)
        before = self.bsyms[consumer]
        made = _made(before.subsymbols)
        added = [x for x in cut.again if made.isdisjoint(p.name for p in results(x))]
        if added:
            # In the order of the trace, which keeps reads before the writes that follow them.
            subsymbols = sorted((*added, *before.subsymbols), key=self._position)
            self._replace(consumer, before.output, subsymbols)

    def drop_unread(self, producer: int) -> None:
        """Leave the producer the outputs that others read, and what computes them."""
        fusion = self.bsyms[producer]
        made = tensors(p for leaf in fusion.subsymbols for p in results(leaf))
        read = {p.name: p for p in made if self._readers[p.name] - {producer}}
        read |= {p.name: p for p in write_results(fusion.subsymbols)}
        subsymbols, _ = live(fusion.subsymbols, list(read.values()))
        self._replace(producer, tuple(read.values()), subsymbols)

    def _cut(self, producer: int, consumer: int) -> Cut:
        steps = self.bsyms[producer].subsymbols
        made = {p.name for leaf in steps for p in results(leaf)}
        entering = {p.name for p in self.bsyms[consumer].flat_proxy_args}
        needed = [p.name for p in tensors(self.bsyms[consumer].flat_proxy_args) if p.name in made]
        inside = _made(self.bsyms[consumer].subsymbols)
        views = {
            p.name for leaf in steps if prim_name(leaf) in CERTAIN_VIEWS for p in results(leaf)
        }
        written = frozenset().union(*self._writes[producer : consumer + 1])
        later = frozenset().union(*self._writes[producer:])

        def cost(proxy: Any) -> float:
            name = proxy.name
            if name in inside or (name in entering and name not in needed):
                return 0.0
            if name in made and not isinstance(proxy, TensorProxy):
                return _NEVER  # a region returns tensors only: the number is computed again
            readers = self._readers[name] - {producer}
            undecided = {i for i in readers if i in self._device and i >= consumer} | {consumer}
            is_there = name not in made or not readers <= undecided
            # Of a value and a view of the same bytes all consumers should choose the value.
            size = bytes_of(proxy) + (name in views)
            return size * (1 if is_there else 1 + 1 / len(undecided))

        walked = {short_row(x) for x in self.bsyms[consumer].subsymbols if is_reduction(x)}
        rows = frozenset(walked - {None})
        return find_cut(
            steps, needed, lambda leaf: self._can_repeat(leaf, rows, written, later), cost
        )

    def _can_repeat(
        self, leaf: BoundSymbol, rows: Set[object], written: frozenset[str], later: frozenset[str]
    ) -> bool:
        """True if running `leaf` later is cheap, also where `rows` are reduced, reads the same
        versions and makes no second memory of what is written `later`: a copy would not see the
        write."""
        made = {self._storages.of(p.name) for p in leaf.flat_proxy_outs}
        return (
            (_is_cheap(leaf) or (is_reduction(leaf) and short_row(leaf) in rows))
            and not any(is_write(part) for part in leaves([leaf]))
            and self._storages.reads(leaf).isdisjoint(written)
            and later.isdisjoint(made)
        )

    def _replace(
        self, position: int, output: Sequence[Any], subsymbols: Sequence[BoundSymbol]
    ) -> None:
        fusion = self.bsyms[position]
        for p in fusion.flat_proxy_args:
            self._readers[p.name].discard(position)
        (edge,) = boundaries([subsymbols])
        self.bsyms[position] = replace(
            fusion, args=edge.inputs, output=tuple(output), subsymbols=tuple(subsymbols)
        )
        self._enter(position, self.bsyms[position])

    def _enter(self, position: int, bsym: BoundSymbol) -> None:
        for p in bsym.flat_proxy_args:
            self._readers[p.name].add(position)

    def _position(self, bsym: BoundSymbol) -> float:
        """Where it stands in the trace; the sizes of a tensor, which have their names from the
        first one of these sizes, behind that tensor."""
        made = min((self._rank[p.name] for p in bsym.flat_proxy_outs), default=len(self._rank))
        read = (self._rank.get(p.name, 0) for p in bsym.flat_proxy_args)
        return max(made, 0.5 + max(read, default=0))


def _made(leaves: Iterable[BoundSymbol]) -> set[str]:
    """What the leaves define. A size has its name before the tensor that it is taken of again."""
    makers = (leaf for leaf in leaves if prim_name(leaf) != SHAPE_PRIM)
    return {p.name for leaf in makers for p in results(leaf)}


def _is_cheap(leaf: BoundSymbol) -> bool:
    """True for what costs less to compute twice than to keep, and gives the same value again."""
    if is_reduction(leaf):
        return is_repeatable(leaf)
    parts = list(leaves([leaf]))
    if is_scan(leaf) or any(is_sum(x) or are_floats_compared(x) for x in parts):
        return False
    names = {prim_name(part) for part in parts}
    is_random = not names.isdisjoint(RANDOM_PRIMS - _FUNCTIONS_OF_A_SEED)
    return not is_random and not has_tags(leaf, _COMPUTED_ONCE)


def _ranks(bsyms: Iterable[BoundSymbol]) -> dict[str, int]:
    """The position of each value's definition in the trace before anything moved."""
    names = (p.name for leaf in leaves(bsyms) for p in leaf.flat_proxy_outs)
    return {name: position for position, name in reversed(list(enumerate(names)))}
