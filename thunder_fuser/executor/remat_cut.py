"""What a later fusion reads, and what it computes again: a minimal cut by bytes.

    producer: s = add(x, b); y = gelu(s)        the consumer needs s

    source -> x --1N--> s --2N--> consumer      cut: x and b, and s is computed again
           -> b --0N--^

A vertex cut: every value that the consumer needs of the producer is read itself or computed from
values that are. A value that the producer reads or returns anyway costs the bytes of one read, one
that it would have to return costs a write too, and one that the consumer reads anyway is free.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Any

import networkx as nx
from thunder.core.proxies import NumberProxy, TensorProxy
from thunder.core.symbol import BoundSymbol

SYMBOLIC_EXTENT = 4096  # stands for an extent that the trace does not know

_SOURCE, _SINK = ("", "source"), ("", "sink")


@dataclass(frozen=True)
class Cut:
    """Names that the consumer reads, and the producer's leaves that it runs again, in order."""

    names: frozenset[str]
    again: tuple[BoundSymbol, ...]


def find_cut(
    leaves: Sequence[BoundSymbol],
    needed: Collection[str],
    can_repeat: Callable[[BoundSymbol], bool],
    cost: Callable[[Any], float],
) -> Cut:
    """The cheapest way to give the values `needed`, all of them results of `leaves`.

    `cost(proxy)` is what the consumer pays to read a value. Of cuts of equal cost the one with the
    fewest computations is taken.
    """
    makers = {p.name: leaf for leaf in reversed(leaves) for p in results(leaf)}  # the first ones
    reached = _ancestors(needed, makers, can_repeat)
    graph = nx.DiGraph()
    graph.add_nodes_from((_SOURCE, _SINK))
    for name, proxy in reached.items():
        graph.add_edge((name, "in"), (name, "out"), capacity=cost(proxy))
        leaf = makers.get(name)
        if leaf is None or not can_repeat(leaf):
            graph.add_edge(_SOURCE, (name, "in"), capacity=inf)
            continue
        for operand in leaf.flat_proxy_args:
            graph.add_edge((operand.name, "out"), (name, "in"), capacity=inf)
    for name in needed:
        graph.add_edge((name, "out"), _SINK, capacity=inf)
    names = _nearest_the_sink(graph)
    return Cut(names, _repeated(leaves, needed, names, makers))


def results(leaf: BoundSymbol) -> list[Any]:
    """What a leaf defines: a no-op returns an argument, which it does not define."""
    given = {p.name for p in leaf.flat_proxy_args}
    return [p for p in leaf.flat_proxy_outs if p.name not in given]


def bytes_of(proxy: Any) -> int:
    """Bytes of a dense tensor of the proxy's shape; none for a number."""
    if not isinstance(proxy, TensorProxy):
        return 0
    extents = (SYMBOLIC_EXTENT if isinstance(n, NumberProxy) else n for n in proxy.shape)
    return int(prod(extents) * proxy.dtype.bytes)


def _ancestors(
    needed: Iterable[str],
    makers: Mapping[str, BoundSymbol],
    can_repeat: Callable[[BoundSymbol], bool],
) -> dict[str, Any]:
    """The values from which those needed could be computed, with their proxies."""
    found: dict[str, Any] = {}
    stack = [p for name in needed for p in results(makers[name]) if p.name == name]
    while stack:
        proxy = stack.pop()
        if proxy.name in found:
            continue
        found[proxy.name] = proxy
        leaf = makers.get(proxy.name)
        if leaf is not None and can_repeat(leaf):
            stack.extend(leaf.flat_proxy_args)
    return found


def _nearest_the_sink(graph: nx.DiGraph) -> frozenset[str]:
    """The values of a minimal cut, as late in the computation as one can be: networkx gives the
    sink what can still reach it."""
    _, (_, late) = nx.minimum_cut(graph, _SOURCE, _SINK)
    return frozenset(
        name for name, end in late if end == "out" and name and (name, "in") not in late
    )


def _repeated(
    leaves: Sequence[BoundSymbol],
    needed: Iterable[str],
    names: frozenset[str],
    makers: Mapping[str, BoundSymbol],
) -> tuple[BoundSymbol, ...]:
    """The leaves that compute the values needed from those that are read."""
    again: dict[int, BoundSymbol] = {}
    stack = [name for name in needed if name not in names]
    while stack:
        leaf = makers.get(stack.pop())
        if leaf is not None and id(leaf) not in again:
            again[id(leaf)] = leaf
            stack.extend(p.name for p in leaf.flat_proxy_args if p.name not in names)
    return tuple(leaf for leaf in leaves if id(leaf) in again)
