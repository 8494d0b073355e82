"""Reduce in the forward what the backward would read memory again for.

    y = std(x, 0)                            y = std(x, 0); s = sum(x, 0)
    -- backward --                           -- backward --
    s = sum(x, 0); d = sub(x, s / n)    =>   d = sub(x, s / n)

The gradient of a variance needs the mean, that of an extremum how many elements equal it: a number
a column, of what the forward keeps anyway. The backward would read all of that for them, and once
more for the gradient. The forward reduces the same elements over the same dims, and makes both in
one pass (`presegment/one_pass_counts.py`).

Rows that a block or a cluster keeps are read once in the backward all the same, so their sums stay
there. So do extrema that the backward finds again, of values that only it computes (`extrema.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import prod
from typing import Any

import thunder.core.dtypes as dtypes
import thunder.core.prims as prims
from thunder.core.proxies import Proxy, TensorProxy, variableify
from thunder.core.symbol import BoundSymbol, BoundSymbolTag
from thunder.core.trace import TraceCtx, tracectx

from thunder_fuser.analysis.reductions import COUNTED
from thunder_fuser.executor.claims import is_backward, prim_name, why_not
from thunder_fuser.executor.cse import RANDOM_PRIMS
from thunder_fuser.executor.early_sums import SHRINKS, shrinks
from thunder_fuser.executor.extrema import EXTREMA, are_floats_compared, is_exact
from thunder_fuser.executor.reductions import is_read_again, is_reduction
from thunder_fuser.executor.storage import Storages, is_write, leaves, rebuilt, tensors


def reduce_once(trace: TraceCtx) -> TraceCtx:
    """The trace itself where the backward has no such reduction."""
    bsyms = trace.bound_symbols
    if not any(map(is_backward, bsyms)):
        return trace
    forward = _Forward(bsyms)
    with tracectx(trace):
        for leaf in leaves(filter(is_backward, bsyms)):
            forward.take(leaf)
    return rebuilt(trace, forward.rebuilt()) if forward.moved else trace


class _Forward:
    """What the forward of a trace makes, and what is `moved` there from the backward."""

    def __init__(self, bsyms: Sequence[BoundSymbol]) -> None:
        self._bsyms = bsyms
        self._makers = {p.name: leaf for leaf in leaves(bsyms) for p in leaf.flat_proxy_outs}
        self._place = {p.name: k for k, b in self._own() for p in b.flat_proxy_outs}
        self._again: dict[str, BoundSymbol] = {}  # what the backward makes of the forward's alone
        self._behind: dict[int, list[BoundSymbol]] = {}
        self.moved: dict[str, tuple[BoundSymbol, ...]] = {}  # with what is left in its place

    def take(self, leaf: BoundSymbol) -> None:
        """Move a leaf of the backward, behind all before it, if it is such a reduction."""
        names = [p.name for p in leaf.flat_proxy_args]
        is_known = bool(names) and all(x in self._place or x in self._again for x in names)
        if not is_known or why_not(leaf) is not None:
            return
        if not is_reduction(leaf):
            if self._may_repeat(leaf):
                self._again |= {p.name: leaf for p in leaf.flat_proxy_outs}
            return
        path = self._path(leaf)
        is_worth = prim_name(leaf) not in EXTREMA and is_read_again(leaf) and shrinks(leaf)
        beside = self._beside(leaf, path) if is_worth else None
        if beside is not None:
            given = (p.name for x in (*path, leaf) for p in x.flat_proxy_args)
            place = max(beside, *(self._place.get(name, -1) for name in given))
            made, left = _copies(path, leaf, is_count=self._is_count(leaf))
            self._behind.setdefault(place, []).extend(made)
            self._place |= {p.name: place for p in leaf.flat_proxy_outs if not left}
            self.moved |= {p.name: left for p in leaf.flat_proxy_outs}

    def rebuilt(self) -> Iterator[BoundSymbol]:
        """The symbols of the trace, with what moved behind those of the forward that it needs."""
        for k, bsym in enumerate(self._bsyms):
            parts = list(leaves([bsym])) if is_backward(bsym) else [bsym]
            moved = {p.name for part in parts for p in part.flat_proxy_outs} & self.moved.keys()
            for part in parts if moved else [bsym]:
                names = [p.name for p in part.flat_proxy_outs]
                yield from self.moved[names[0]] if moved.intersection(names) else (part,)
            yield from self._behind.get(k, ())

    @cached_property
    def _storages(self) -> Storages:
        return Storages(self._bsyms)

    def _own(self) -> Iterator[tuple[int, BoundSymbol]]:
        return ((k, b) for k, b in enumerate(self._bsyms) if not is_backward(b))

    def _may_repeat(self, leaf: BoundSymbol) -> bool:
        """True for what the forward may compute too, and the backward as before: of elements that
        are compared with what their column has one of, exact ones are the same in both."""
        outs, given = leaf.flat_proxy_outs, tensors(leaf.flat_proxy_args)
        if is_write(leaf) or prim_name(leaf) in RANDOM_PRIMS or len(tensors(outs)) < len(outs):
            return False
        exact = (is_exact(p, self._makers) for p in given)
        return any(exact) if are_floats_compared(leaf) else True

    def _is_count(self, leaf: BoundSymbol) -> bool:
        """True for a sum of truths, of fewer than a word counts."""
        made = self._makers.get(leaf.args[0].name)
        is_cast = made is not None and prim_name(made) == "CONVERT_ELEMENT_TYPE"
        is_whole = prim_name(leaf) == "SUM" and leaf.output.dtype is dtypes.int64
        if made is None or not (is_cast and is_whole):
            return False
        return made.args[0].dtype is dtypes.bool8 and prod(_extents(leaf)) < COUNTED

    def _path(self, leaf: BoundSymbol) -> list[BoundSymbol]:
        """What the backward computes of the forward's values to reduce them, in order."""
        path, todo = dict[str, BoundSymbol](), [leaf]
        while todo:
            for p in todo.pop().flat_proxy_args:
                if p.name in self._again and p.name not in path:
                    path[p.name] = self._again[p.name]
                    todo.append(path[p.name])
        return [made for name, made in self._again.items() if name in path]

    def _beside(self, leaf: BoundSymbol, path: Sequence[BoundSymbol]) -> int | None:
        """The place of the forward's first reduction of the same elements over the same dims; None
        without one, or where something writes what is read."""
        if not all(map(self._storages.is_unwritten, (*path, leaf))):
            return None
        read = self._planes(leaf)
        for k, bsym in self._own():
            for other in filter(is_reduction, leaves([bsym])):
                is_alike = _extents(other) == _extents(leaf) and _dims(other) == _dims(leaf)
                if is_alike and why_not(bsym) is None and read <= self._planes(other):
                    return k
        return None

    def _planes(self, leaf: BoundSymbol) -> set[str]:
        """What no region makes of the elements that a leaf reduces."""
        found, seen = set[str](), set[str]()
        todo, elements = tensors(leaf.flat_proxy_args), prod(_extents(leaf))
        while todo:
            proxy = todo.pop()
            if proxy.name in seen:
                continue
            seen.add(proxy.name)
            made = self._makers.get(proxy.name)
            if made is not None and why_not(made) is None:
                todo += tensors(made.flat_proxy_args)
            elif SHRINKS * prod(proxy.shape) > elements:
                found.add(proxy.name)
        return found


def _copies(
    path: Sequence[BoundSymbol], leaf: BoundSymbol, *, is_count: bool
) -> tuple[list[BoundSymbol], tuple[BoundSymbol, ...]]:
    """The path to a leaf with results of other names, and the leaf, as the forward's; and what is
    left in its place. A count is handed over as a word: the backward converts it to a float for
    each element, which takes four times as long of 64 bits."""
    renames: dict[Any, Proxy] = {}
    made = list[BoundSymbol]()
    for step in path:
        renames |= {variableify(out): TensorProxy(like=out) for out in step.flat_proxy_outs}
        made.append(step.from_bsym_swap_proxies(renames).from_bsym(tags=set()))
    if not is_count:
        moved = leaf.from_bsym_swap_proxies(renames, skip_output=True)
        return [*made, moved.from_bsym(tags=set())], ()
    count, word = TensorProxy(like=leaf.output), TensorProxy(like=leaf.output, dtype=dtypes.int32)
    moved = leaf.from_bsym_swap_proxies({**renames, variableify(leaf.output): count})
    cast = prims.convert_element_type
    back = cast.bind(word, dtypes.int64, output=leaf.output)
    made += [moved.from_bsym(tags=set()), cast.bind(count, dtypes.int32, output=word)]
    return made, (back.from_bsym(tags={BoundSymbolTag.BACKWARD}),)


def _extents(leaf: BoundSymbol) -> tuple[Any, ...]:
    return tuple(leaf.args[0].shape)


def _dims(leaf: BoundSymbol) -> set[int]:
    return set(leaf.args[1])
