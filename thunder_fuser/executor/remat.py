"""Recompute in a later fusion what is cheaper to recompute than to hand over.

    [a, z] = F0(x)            [a]  = F0(x)
    [y]    = F1(a, z)    =>   [y]  = F1(a, x)      # z is computed again from x

The cuts are Thunder's (minimal bytes between two fusions). A pair is left alone where a moved
computation would read a storage that is written between the two, or would write one again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from thunder.core import utils
from thunder.core.rematerialization import (
    apply_rematerialization_for_consumer,
    apply_rematerialization_for_producer,
    find_cut,
    find_external_consumer_inputs,
    find_external_producer_outputs,
)
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx, from_trace

from thunder_fuser.executor.inplace import write_results
from thunder_fuser.executor.storage import Storages, is_write, leaves


def rematerialize(trace: TraceCtx, storages: Storages) -> TraceCtx:
    """The trace with cheap values recomputed in the fusions that need them."""
    bsyms = list(trace.bound_symbols)
    consumers_of = utils.consumers(trace)
    pairs = _fusion_pairs(bsyms, consumers_of)
    writes = [storages.writes(bsym) for bsym in bsyms]
    rank = _ranks(bsyms)
    kept: dict[int, tuple[str, ...]] = {}  # producer -> values its earlier cuts hand over
    for number, (p, c) in enumerate(pairs):
        others = [bsyms[k] for q, k in pairs[number + 1 :] if q == p]
        producer, consumer = bsyms[p], bsyms[c]
        if not _has_ends(producer, consumer):
            continue
        external = find_external_producer_outputs(consumers_of, others, producer, consumer)
        cut = find_cut(external, producer, consumer)
        if not cut:
            continue
        moved = _in_order(apply_rematerialization_for_consumer(producer, consumer, cut), rank)
        written = frozenset().union(*writes[p : c + 1])
        if not _can_move(_added(consumer, moved), written, storages):
            continue
        external += kept.get(p, ())
        bsyms[p] = with_write_results(apply_rematerialization_for_producer(external, producer, cut))
        bsyms[c] = moved
        kept[p] = kept.get(p, ()) + tuple(cut)
    result = from_trace(trace)
    result.bound_symbols = bsyms
    return result


def with_write_results(fusion: BoundSymbol) -> BoundSymbol:
    """The fusion with the result of every write among its outputs."""
    listed = {p.name for p in fusion.output}
    missing = [p for p in write_results(fusion.subsymbols) if p.name not in listed]
    return replace(fusion, output=(*fusion.output, *missing)) if missing else fusion


def _fusion_pairs(bsyms: Sequence[BoundSymbol], consumers_of: Any) -> list[tuple[int, int]]:
    position = {id(bsym): i for i, bsym in enumerate(bsyms)}
    pairs = {
        (i, position[id(consumer)])
        for i, producer in enumerate(bsyms)
        if producer.sym.is_fusion
        for out in producer.flat_proxy_outs
        for consumer in consumers_of.get(out, ())
        if consumer.sym.is_fusion
    }
    return sorted(pairs)


def _ranks(bsyms: Sequence[BoundSymbol]) -> dict[str, int]:
    """The position of each value's definition in the trace before anything moved."""
    names = (p.name for leaf in leaves(bsyms) for p in leaf.flat_proxy_outs)
    return {name: position for position, name in reversed(list(enumerate(names)))}


def _in_order(fusion: BoundSymbol, rank: dict[str, int]) -> BoundSymbol:
    """The fusion in the order of the trace, which keeps reads before the writes that follow them.

    Thunder sorts by data edges alone.
    """

    def key(bsym: BoundSymbol) -> int:
        return min((rank[p.name] for p in bsym.flat_proxy_outs), default=len(rank))

    return replace(fusion, subsymbols=tuple(sorted(fusion.subsymbols, key=key)))


def _has_ends(producer: BoundSymbol, consumer: BoundSymbol) -> bool:
    """True if the cut is defined: Thunder's needs something on the consumer's side to reach."""
    return bool(consumer.output) or bool(find_external_consumer_inputs(producer, consumer))


def _added(before: BoundSymbol, after: BoundSymbol) -> list[BoundSymbol]:
    known = {id(bsym) for bsym in before.subsymbols}
    return [bsym for bsym in after.subsymbols if id(bsym) not in known]


def _can_move(added: Sequence[BoundSymbol], written: frozenset[str], storages: Storages) -> bool:
    """True if running `added` later reads the same versions and makes no second memory.

    A value that is ever written in place must exist once: its copy would not see the write.
    """
    return all(
        not is_write(leaf)
        and storages.reads(leaf).isdisjoint(written)
        and not any(storages.is_written(p.name) for p in leaf.flat_proxy_outs)
        for leaf in leaves(added)
    )
