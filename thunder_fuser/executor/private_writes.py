"""Make a write into memory that nothing else sees a value.

    m1, = update_aliases((m,))
    t = where(c, -inf, m1)
    m2 = copy_(t, m1)                 =>  t = where(c, -inf, m)
    m3, = update_aliases((m2,))
    y = add(x, m3)                    =>  y = add(x, t)

LitGPT fills the mask of Gemma-2's attention like this, once a layer. A region cannot hold a write
into a tensor that it makes itself; as values the three regions around it are one, and the backward
computes the mask again instead of keeping it. Nor is an activation in place, as of `nn.SiLU(True)`,
a write then; the gradient reads what was there before, which Thunder's own would read overwritten.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import thunder.core.prims as prims
from thunder.core.proxies import Proxy, TensorProxy, variableify
from thunder.core.symbol import BoundSymbol, BoundSymbolTag
from thunder.core.trace import TraceCtx, from_trace, tracectx

from thunder_fuser.executor.claims import WRITE_PRIM, prim_name
from thunder_fuser.executor.liveness import boundaries, trim
from thunder_fuser.executor.storage import (
    VIEW_PRIMS,
    Storages,
    is_write,
    leaves,
    renamed,
    tensors,
)


def without_private_writes(trace: TraceCtx) -> TraceCtx:
    """The trace with such writes as values. What is an argument, is returned under several names or
    beside what it is a copy of, or is read through a view that is older than a write stays
    written."""
    bsyms = trace.bound_symbols
    storages = Storages(bsyms)
    private = _private(bsyms, storages) if storages.written else frozenset()
    if not private:
        return trace
    result, body = from_trace(trace), list[BoundSymbol]()
    renames: dict[Any, Proxy] = {}
    with tracectx(result):
        for bsym in _opened(bsyms, storages, private):
            if any(variableify(p) in renames for p in bsym.flat_proxy_args):
                bsym = bsym.from_bsym_swap_proxies(renames, skip_output=True)
            if prim_name(bsym) == WRITE_PRIM and storages.of(bsym.output.name) in private:
                body += _as_value(bsym, renames)
            elif renamed(bsym):
                body += _without(private, bsym, storages, renames)
            else:
                body.append(bsym)
    result.bound_symbols = body
    return trim(result)


def _opened(
    bsyms: Iterable[BoundSymbol], storages: Storages, private: frozenset[str]
) -> Iterator[BoundSymbol]:
    """The bound symbols, with those that hold a write into a private storage replaced by their
    parts."""
    for bsym in bsyms:
        if bsym.subsymbols and not private.isdisjoint(storages.writes(bsym)):
            yield from _opened(bsym.subsymbols, storages, private)
        else:
            yield bsym


def _as_value(write: BoundSymbol, renames: dict[Any, Proxy]) -> list[BoundSymbol]:
    """What gives the value of a write: nothing but another name, or a conversion."""
    source, out = write.args[0], write.output
    if source.dtype == out.dtype:
        renames[variableify(out)] = source
        return []
    converted = prims.convert_element_type.bind(source, out.dtype, output=out)
    return [replace(converted, tags=write.tags)]


def _without(
    private: frozenset[str], bsym: BoundSymbol, storages: Storages, renames: dict[Any, Proxy]
) -> list[BoundSymbol]:
    """An `update_aliases` of what is left beside private storages."""
    pairs = renamed(bsym)
    if private.isdisjoint(storages.of(new.name) for _, new in pairs):
        return [bsym]
    kept = []
    for old, new in pairs:
        if storages.of(new.name) in storages.written - private:
            kept.append((old, new))
        else:
            renames[variableify(new)] = old
    if not kept:
        return []
    olds, news = zip(*kept, strict=True)
    return [replace(bsym, args=(olds,), output=news)]


def _private(bsyms: Sequence[BoundSymbol], storages: Storages) -> frozenset[str]:
    """The written storages whose writes can be values."""
    (edge,) = boundaries([[b for b in bsyms if not prim_name(b).startswith("UNPACK")]])
    returned = {p.name: p for p in tensors(bsyms[-1].flat_proxy_args)}
    results = Counter(storages.of(name) for name in returned)
    public = {storages.of(p.name) for p in edge.inputs}
    public |= {storage for storage, names in results.items() if names > 1}  # views of each other
    if storages.written - public:
        walk = _Walk(storages, public)
        for bsym in bsyms[:-1]:
            is_backward = BoundSymbolTag.BACKWARD in bsym.tags
            for leaf in leaves([bsym]):
                walk.enter(leaf, is_backward)
        walk.leave(list(returned.values()))
    return storages.written - public


@dataclass
class _Walk:
    """Follows the names of written storages through the trace, and enters into `public` those of
    which something reads what a value would not show."""

    storages: Storages
    public: set[str]
    writes: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))  # by storage
    shown: dict[str, int] = field(default_factory=dict)  # writes that the value of a name has seen
    copied: dict[str, str] = field(default_factory=dict)  # storage -> that of its last value
    views: set[str] = field(default_factory=set)  # names that may lie as torch lays no copy
    spread: set[str] = field(default_factory=set)  # storages whose last value is one of these

    def enter(self, leaf: BoundSymbol, is_backward: bool) -> None:
        """A gradient is of what its forward read, whatever was written over that."""
        if pairs := renamed(leaf):
            self.shown.update({new.name: self.shown.get(old.name, 0) for old, new in pairs})
            self.views.update(new.name for old, new in pairs if old.name in self.views)
        elif prim_name(leaf) == WRITE_PRIM:
            self._write(leaf)
        else:
            self._compute(leaf, is_backward)

    def leave(self, returned: Sequence[Any]) -> None:
        """What is returned has its last value, in memory that nothing else shows, with the strides
        of what was written."""
        self.public.update(self.storages.of(p.name) for p in returned if not self._is_current(p))
        results = {self.storages.of(p.name) for p in returned}
        copies = {s: source for s in results if (source := self.copied.get(s)) is not None}
        seen = Counter((*self.public, *results, *copies.values()))
        self.public.update(s for s, source in copies.items() if seen[source] > 1)
        self.public |= results & self.spread

    def _write(self, leaf: BoundSymbol) -> None:
        source, target, out = leaf.args[0], leaf.args[1], leaf.output
        storage = self.storages.of(out.name)
        is_value = (
            isinstance(source, TensorProxy)
            and not self.storages.is_written(source.name)
            and source.device == target.device
        )
        if not is_value or not self._is_current(target):
            self.public.add(storage)
        self.writes[storage] += 1
        self._show(out)
        if is_value and source.dtype == out.dtype:
            self.copied[storage] = self.storages.of(source.name)
        else:
            self.copied.pop(storage, None)
        if is_value and source.name in self.views:
            self.spread.add(storage)
        else:
            self.spread.discard(storage)

    def _compute(self, leaf: BoundSymbol, is_backward: bool) -> None:
        reads = tensors(leaf.flat_proxy_args)
        outs = tensors(leaf.flat_proxy_outs)
        if prim_name(leaf) in VIEW_PRIMS - {"CONVERT_ELEMENT_TYPE"}:
            self.views.update(p.name for p in outs)
        if is_write(leaf):
            self.public.update(self.storages.of(p.name) for p in (*reads, *outs))
        late = [] if is_backward else [p for p in reads if not self._is_current(p)]
        self.public.update(self.storages.of(p.name) for p in late)
        for out in outs:
            self._show(out)

    def _show(self, tensor: Any) -> None:
        self.shown[tensor.name] = self.writes[self.storages.of(tensor.name)]

    def _is_current(self, tensor: Any) -> bool:
        return self.shown.get(tensor.name, 0) == self.writes[self.storages.of(tensor.name)]
